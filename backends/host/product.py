"""A product's host file: its kernel as PTX within, loaded by the driver; relayouts in CUDA C++ in front."""

from __future__ import annotations

from dataclasses import replace

from legalsat.backends import program
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.relayouts import with_relayouts
from legalsat.extract.moved.relayouts import relayouts_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import Program

_LITERAL = 16_000  # characters of one string that compilers take; several follow each other


def emit_product(plan: GemmPlan) -> str:
    """Return a file that holds the plan's kernel as backend "ptx" prints it, and what loads, encodes and launches it.

    Raises:
        LegalSatError: backend "ptx" does not print this plan.
    """
    made = program(plan, "ptx")
    if isinstance(made, OpenProgram):
        ways = [
            replace(one, program=_in_file(one.program, plan, where.kernel))
            for one, where in zip(made.choices, plan.choices, strict=True)
        ]
        made = replace(made, choices=tuple(ways))
        found = [one.program for one in ways]
    else:
        made = _in_file(made, plan, plan.kernel)
        found = [made]
    kernels = {(one.text, recipe.entry): f'loaded("{recipe.entry}")' for one in found for recipe in one.recipes}
    title = f"{made.subject}, on {plan.target}: a kernel in PTX, assembled by the driver at the first call"
    texts = {one.text: _loading(one.text) for one in found}
    return cuda_file(made, title, "product", kernels=kernels, in_place_of=texts)


def _in_file(made: Program, plan: GemmPlan, kernel: ProductKernel | None) -> Program:
    """Return a program whose relayouts are in CUDA C++, as the plan with that kernel has them."""
    before = plan.before if kernel is None else relayouts_of(plan.operator, kernel, plan.target)
    return with_relayouts(replace(made, before=()), before, "cute")


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
