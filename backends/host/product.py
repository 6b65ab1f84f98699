"""A product's host file: its kernel as PTX within, loaded by the driver; relayouts in CUDA C++ in front."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from legalsat.backends import program
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.relayouts import with_relayouts
from legalsat.extract.moved.relayouts import relayouts_of
from legalsat.plans.gemm_plan import GemmPlan, InFront
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
            replace(one, program=in_file(one.program, relayouts_of(plan.operator, where.kernel, plan.target)))
            for one, where in zip(made.choices, plan.choices, strict=True)
        ]
        made = replace(made, choices=tuple(ways))
        found = [one.program for one in ways]
    else:
        made = in_file(made, plan.before)
        found = [made]
    title = f"{made.subject}, on {plan.target}: a kernel in PTX, assembled by the driver at the first call"
    return cuda_file(made, title, "product", **in_strings(found))


def in_file(made: Program, before: Iterable[InFront]) -> Program:
    """Return a program whose relayouts are in CUDA C++, as a plan has them."""
    return with_relayouts(replace(made, before=()), before, "cute")


def in_strings(programs: Iterable[Program]) -> dict[str, Any]:
    """Return what a file in CUDA C++ has of programs in PTX: strings of them, and what hands out their kernels."""
    found = list(programs)
    kernels = {(one.text, recipe.entry): f'loaded("{recipe.entry}")' for one in found for recipe in one.recipes}
    return {"kernels": kernels, "in_place_of": {one.text: _loading(one.text) for one in found}}


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
