"""A product's host file: its kernel as PTX within, loaded by the driver; relayouts in CUDA C++ in front."""

from __future__ import annotations

from dataclasses import replace

from legalsat.backends import program
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.relayouts import with_relayouts
from legalsat.plans.gemm_plan import GemmPlan

_LITERAL = 16_000  # characters of one string that compilers take; several follow each other


def emit_product(plan: GemmPlan) -> str:
    """Return a file that holds the plan's kernel as backend "ptx" prints it, and what loads, encodes and launches it.

    Raises:
        LegalSatError: backend "ptx" does not print this plan.
    """
    made = program(plan, "ptx")
    made = with_relayouts(replace(made, before=()), plan.before, "cute")
    kernels = {(made.text, one.entry): f'loaded("{one.entry}")' for one in made.recipes}
    title = f"{made.subject}, on {plan.target}: a kernel in PTX, assembled by the driver at the first call"
    return cuda_file(made, title, "product", kernels=kernels, in_place_of={made.text: _loading(made.text)})


def _loading(text: str) -> str:
    """Return C++ that holds PTX, and the function that hands out its kernels."""
    pieces = [text[at : at + _LITERAL] for at in range(0, len(text), _LITERAL)]
    literal = "\n".join(f'R"ptx({piece})ptx"' for piece in pieces)
    return f"""\
#include <cuda_runtime.h>

static char const ptx[] =
{literal};

// Finds a kernel of the text above, which the driver assembles at the first call; null if it does not.
static void const *loaded(char const *name) {{
    static cudaLibrary_t const library = [] {{
        cudaLibrary_t found = nullptr;
        cudaError_t const error = cudaLibraryLoadData(&found, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
        return error == cudaSuccess ? found : nullptr;
    }}();
    cudaKernel_t kernel = nullptr;
    if (library == nullptr || cudaLibraryGetKernel(&kernel, library, name) != cudaSuccess) return nullptr;
    return reinterpret_cast<void const *>(kernel);
}}
"""
