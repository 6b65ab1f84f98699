"""Movements that run in CUDA C++: the program of a movement's plan, and its image by nvcc. The kernels need no CuTe."""

from __future__ import annotations

from legalsat.backends.cute.compile import image_of, tools_of
from legalsat.backends.cute.movement import ENTRY, MovementText
from legalsat.errors import LegalSatError
from legalsat.plans.plan import Plan
from legalsat.runtime.program import AddressArgument, Argument, MapArgument, Operand, Program, Recipe, needed
from legalsat.targets import GRANULE_BYTES

__all__ = ["emit_cute", "image_of", "program_of", "tools_of"]


def program_of(plan: Plan) -> Program:
    """Return the program of a plan.

    Raises:
        LegalSatError: the plan begins with a relayout, or an operation of its program has no row in this backend.
    """
    text = _text(plan)
    offsets = [phase.offset for phase in plan.phases] or [0] * len(plan.tensor_maps)
    loads = len(plan.phases) or 1
    arguments: list[Argument] = [
        MapArgument("source" if number < loads else "target", tm, offset)
        for number, (tm, offset) in enumerate(zip(plan.tensor_maps, offsets, strict=True))
    ]
    arguments += [AddressArgument("source"), AddressArgument("target")]
    aligned = {copy.side: min(copy.bytes, GRANULE_BYTES) for copy in plan.copies}
    ends = {"source": plan.operator.source, "target": plan.operator.target}
    return Program(
        subject=str(plan.operator),
        architecture=plan.target.architecture,
        text=text.text(),
        operands=tuple(Operand(side, needed(end, aligned.get(side, GRANULE_BYTES))) for side, end in ends.items()),
        recipes=(Recipe(ENTRY, (text.blocks, 1, 1), text.threads, text.shared_bytes, tuple(arguments)),),
        builder=__name__,
    )


def emit_cute(plan: Plan) -> str:
    """Return CUDA C++ with a kernel and `run(maps..., source, target, stream)`, which launches it; nvcc compiles it.

    Raises:
        LegalSatError: as `program_of`.
    """
    text = _text(plan)
    maps = [f"map{number}" for number, _ in enumerate(plan.tensor_maps)]
    given = ", ".join([*(f"CUtensorMap const &{name}" for name in maps), "void const *source", "void *target"])
    addresses = [f"reinterpret_cast<unsigned long long>({side})" for side in ("source", "target")]
    return "\n".join(
        [
            f"// {plan.operator}",
            f"// Written by LegalSAT, which it needs no more. Compile with nvcc for {plan.target.architecture}.",
            text.text(),
            "#include <cuda_runtime.h>",
            "",
            f"cudaError_t run({given}, cudaStream_t stream) {{",
            "    cudaError_t const allowed = cudaFuncSetAttribute(",
            f"        {ENTRY}, cudaFuncAttributeMaxDynamicSharedMemorySize, {text.shared_bytes});",
            "    if (allowed != cudaSuccess) return allowed;",
            f"    {ENTRY}<<<{text.blocks}, {text.threads}, {text.shared_bytes}, stream>>>(",
            f"        {', '.join([*maps, *addresses])});",
            "    return cudaGetLastError();",
            "}",
            "",
        ]
    )


def _text(plan: Plan) -> MovementText:
    if plan.before:
        raise LegalSatError(
            "plan begins with a relayout of its source, and a kernel is one movement; emit plan.before[0], then what "
            "synthesize gives for its target"
        )
    if plan.target.vendor != "nvidia":
        raise LegalSatError(f"cute prints kernels for NVIDIA GPUs, not for {plan.target}")
    return MovementText(plan)
