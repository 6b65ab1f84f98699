"""A product's host file: its kernel as PTX within, loaded by the driver; relayouts in CUDA C++ in front."""

from __future__ import annotations

from dataclasses import replace

from legalsat.backends import program
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.cute.relayout import launch_of, movement
from legalsat.backends.cute.relayout_kernels import emit
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.runtime.program import Program, Relayout
from legalsat.tensor import plain

_LITERAL = 16_000  # characters of one string that compilers take; several follow each other


def emit_product(plan: GemmPlan) -> str:
    """Return a file that holds the plan's kernel as backend "ptx" prints it, and what loads, encodes and launches it.

    Raises:
        LegalSatError: backend "ptx" does not print this plan.
    """
    made = program(plan, "ptx")
    made = replace(made, before=tuple(replace(one, program=in_cuda(one)) for one in made.before))
    kernels = {(made.text, one.entry): f'loaded("{one.entry}")' for one in made.recipes}
    title = f"{made.subject}, on {plan.target}: a kernel in PTX, assembled by the driver at the first call"
    return cuda_file(made, title, "product", kernels=kernels, in_place_of={made.text: _loading(made.text)})


def in_cuda(relayout: Relayout) -> Program:
    """Return a relayout as CUDA C++: another kernel between the same places."""
    given = relayout.program
    source, target = given.operands[0].tensor, given.result.tensor
    launch = launch_of(
        movement(
            source.dtype.bits // 8,
            plain(source.shape),
            plain(source.strides),
            plain(target.strides),
            source_align=source.align if not source.offset else source.dtype.bits // 8,
            target_align=target.align if not target.offset else target.dtype.bits // 8,
        )
    )
    names = (given.operands[0].name, given.result.name)
    return replace(given, text=emit(launch.kernel), recipes=(launch.recipe(*names),), workspaces=(), before=())


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
