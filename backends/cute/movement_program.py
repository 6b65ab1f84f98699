"""Relayouts that run: the program of a movement in CUDA C++, and its image by nvcc. The kernels need no CuTe.

The kernel carries the whole operator out, whatever means the plan moves it by.
"""

from __future__ import annotations

import math
import re

from legalsat.backends.cute.compile import image_of, tools_of
from legalsat.backends.cute.relayout import Axis, Launch, Movement, launch_of
from legalsat.backends.cute.relayout_kernels import THREADS, emit
from legalsat.errors import LegalSatError
from legalsat.operators import Move, access_of
from legalsat.plan import Plan
from legalsat.runtime.program import Operand, Program, needed
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain

__all__ = ["emit_cute", "image_of", "movement_of", "program_for", "program_of", "text_for", "tools_of"]

FIRST_ARCHITECTURE = 80  # which copies into shared memory while it computes
SUFFIXES = {"u32": "u", "u64": "ull", "i64": "ll"}


def program_of(plan: Plan) -> Program:
    """Return the program of a plan.

    Raises:
        LegalSatError: no kernel of these carries the plan out.
    """
    return program_for(plan.operator, plan.target)


def program_for(operator: Move, target: Target) -> Program:
    """Return the program of an operator that moves or pads, without a plan.

    Raises:
        LegalSatError: no kernel of these carries the operator out.
    """
    launch = _launch(operator, target)
    kernel = launch.kernel
    return Program(
        subject=str(operator),
        architecture=target.architecture,
        text=emit(kernel),
        operands=(
            Operand("source", needed(operator.source, launch.source_align)),
            Operand("target", needed(operator.target, launch.target_align)),
        ),
        recipes=(launch.recipe(),),
        builder=__name__,
    )


def emit_cute(plan: Plan) -> str:
    """Return CUDA C++ with a kernel and `run(source, target, stream)`, which launches it; nvcc compiles it.

    Raises:
        LegalSatError: no kernel of these carries the plan out.
    """
    return text_for(plan.operator, plan.target)


def text_for(operator: Move, target: Target) -> str:
    """Return the text of `emit_cute` for an operator without a plan."""
    launch = _launch(operator, target)
    named = zip(launch.kernel.parameters[2:], launch.numbers, strict=True)
    numbers = [f"        /* {name} */ {value}{SUFFIXES[kind]}" for (kind, name), value in named]
    aligned = ((launch.source_align, "source"), (launch.target_align, "target"))
    return "\n".join(
        [
            f"// {operator}",
            f"// Written by LegalSAT, which it needs no more. Compile with nvcc for {target.architecture}.",
            emit(launch.kernel),
            "#include <cuda_runtime.h>",
            "",
            f"// Addresses must be multiples of {' and '.join(f'{n} bytes ({name})' for n, name in aligned)}.",
            "cudaError_t run(void const *source, void *target, cudaStream_t stream) {",
            f"    auto const kernel = {launch.kernel.entry};",
            "    cudaError_t const allowed = cudaFuncSetAttribute(",
            f"        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {launch.shared});",
            "    if (allowed != cudaSuccess) return allowed;",
            f"    kernel<<<{launch.blocks}, {THREADS}, {launch.shared}, stream>>>(",
            "        reinterpret_cast<unsigned long long>(source),",
            "        reinterpret_cast<unsigned long long>(target),",
            ",\n".join(numbers) + ");",
            "    return cudaGetLastError();",
            "}",
            "",
        ]
    )


def _launch(operator: Move, target: Target) -> Launch:
    number = re.fullmatch(r"sm_(\d+)\D?", target.architecture)
    if number is None or int(number[1]) < FIRST_ARCHITECTURE:
        raise LegalSatError(f"cute prints relayouts for sm_{FIRST_ARCHITECTURE} and later, not for {target}")
    return launch_of(movement_of(operator))


def movement_of(operator: Move) -> Movement:
    """Return an operator in bytes.

    Raises:
        LegalSatError: it does not move elements alone, or has elements that fill no whole bytes.
    """
    if operator.sweeps:
        raise LegalSatError("cute prints copies, transposes and paddings; ask for im2col from another backend")
    if operator.reader is not None:
        raise LegalSatError(
            f"plan leaves tiles in shared memory for {operator.reader}, and cute's relayouts have nobody there to "
            "read them; ask synthesize for no consumer"
        )
    source, target = operator.source, operator.target
    axes, bits = _axes(operator), source.dtype.bits
    if bits % 8:
        if operator.fills:
            raise LegalSatError(f"cute pads tensors of whole bytes, and {source.dtype} has {bits} bits")
        axes, bits = _packed(axes, bits, source), 8
    size = bits // 8
    return Movement(
        size,
        tuple(Axis(n, s * size, t * size, first, count) for n, s, t, first, count in axes),
        _alignment(source),
        _alignment(target),
        pattern=operator.pattern,
    )


def _axes(operator: Move) -> list[tuple[int, int, int, int, int]]:
    """Return of each axis the target's elements, both strides, and which elements are the source's, all in elements."""
    source, axes = operator.source, []
    if operator.order is None:
        access = access_of(operator)
        word, margins = access.word, operator.margins(access)
        if word != source.dtype.bits or margins is None or (operator.fills and not margins):
            raise LegalSatError(f"cute prints movements of whole elements, and {operator} is none")
        for mode, (first, count) in zip(access.modes, margins or [(0, m.extent) for m in access.modes], strict=True):
            axes.append((mode.extent, mode.source // word, mode.target // word, first, count))
        return axes
    extents, from_, to = plain(source.shape), plain(source.strides), plain(operator.target.strides)
    for axis, (before, after) in enumerate(operator.around):
        count, step = extents[axis], to[operator.order.index(axis)]
        # One element has no neighbour, so that its stride may be what suits.
        stride = from_[axis] if count > 1 else step
        axes.append((before + count + after, stride, step, before, count))
    return axes


def _packed(
    axes: list[tuple[int, int, int, int, int]], bits: int, tensor: Tensor
) -> list[tuple[int, int, int, int, int]]:
    """Return axes of packed elements as axes of the bytes that they fill."""
    per_byte = 8 // math.gcd(bits, 8)  # elements that end with a byte
    size = bits * per_byte // 8
    found = []
    for n, s, t, _, _ in axes:
        if s == t == 1 and n % per_byte == 0:
            found.append((n // per_byte * size, 1, 1, 0, n // per_byte * size))
        elif n == 1:
            found.append((1, 0, 0, 0, 1))
        elif s % per_byte or t % per_byte:
            raise LegalSatError(f"{tensor} has rows of {bits}-bit elements that do not fill whole bytes; pad its rows")
        else:
            found.append((n, s * bits // 8, t * bits // 8, 0, n))
    return found


def _alignment(tensor: Tensor) -> int:
    return math.gcd(tensor.align, tensor.offset or tensor.align)
