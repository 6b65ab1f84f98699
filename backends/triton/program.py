"""Triton that runs: the program of a movement's plan, and its image by Triton's compiler, launched without Triton.

What Triton's own launcher would pass is passed here: of each tensor map the map, its extents and its strides, and at
the end addresses of scratch memory, of which these kernels need none. The compiled kernel's list is compared with that.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from legalsat.backends.triton.adapter import emit_triton, kernel_of, vector_kernel_of
from legalsat.backends.triton.body import kernel_name
from legalsat.backends.triton.compile import load_module
from legalsat.backends.triton.kernel import CopyKernel, TensorMapShape
from legalsat.backends.triton.threads import KERNEL
from legalsat.errors import LegalSatError, MissingExtra
from legalsat.extract.search.by_vectors import IN_REGISTERS
from legalsat.extras import extra
from legalsat.plans.movement_plan import MovementPlan
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    Image,
    MapArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    needed,
)
from legalsat.targets import GRANULE_BYTES
from legalsat.units.tensor_map import TensorMap, driver_value

LANES = 32
_C_BITS = {"u8": 8, "i8": 8, "u16": 16, "i16": 16, "u32": 32, "i32": 32, "u64": 64, "i64": 64}


def program_of(plan: MovementPlan) -> Program:
    """Return the program of a plan; Triton compiles it when its image is made.

    Raises:
        LegalSatError: triton does not print this plan, or it is for no NVIDIA GPU.
    """
    text = emit_triton(plan)
    if plan.target.vendor != "nvidia":
        raise LegalSatError(f"plan is for {plan.target}, and the runtime launches on NVIDIA GPUs; run the emitted text")
    operator = plan.operator
    if plan.access.by in IN_REGISTERS:
        vectors = vector_kernel_of(plan)
        entry, programs, aligned = KERNEL, math.prod(vectors.tiles), [vectors.load.bytes, vectors.store.bytes]
        arguments: tuple[Argument, ...] = (AddressArgument("source"), AddressArgument("target"))
        signature: tuple[str, ...] = (f"*i{vectors.word_bits}",) * 2
    else:
        kernel = kernel_of(plan)
        entry, aligned = kernel_name(kernel), [GRANULE_BYTES] * 2
        programs = kernel.programs or kernel.launch.tiles
        arguments, signature = _by_maps(kernel, plan.tensor_maps)
    return Program(
        subject=str(operator),
        architecture=plan.target.architecture,
        text=text,
        operands=(
            Operand("source", needed(operator.source, aligned[0])),
            Operand("target", needed(operator.target, aligned[1])),
        ),
        # Triton says at the end what shared memory it takes.
        recipes=(Recipe(entry, (programs, 1, 1), LANES * plan.launch.warps, 0, arguments),),
        signature=signature,
        builder=__name__,
    )


def _by_maps(kernel: CopyKernel, maps: tuple[TensorMap, ...]) -> tuple[tuple[Argument, ...], tuple[str, ...]]:
    arguments = [*described("source", maps[0], kernel.load_map)]
    signature = [_descriptor(kernel, kernel.load_map, "LOAD")]
    if kernel.store_map is None:
        return (*arguments, AddressArgument("target")), (*signature, f"*i{kernel.word_bits}:{GRANULE_BYTES}")
    arguments += described("target", maps[-1], kernel.store_map)
    return tuple(arguments), (*signature, _descriptor(kernel, kernel.store_map, "STORE"))


def _descriptor(kernel: CopyKernel, shape: TensorMapShape, side: str) -> str:
    # The layout's text is Triton's own, which the module's constant has.
    return f"tensordesc<i{kernel.word_bits}{list(shape.block)},{side}_LAYOUT>"


def described(operand: str, tm: TensorMap, shape: TensorMapShape) -> list[Argument]:
    """Return what Triton passes of a tensor map: the map, its extents and its strides, slowest dimension first."""
    extents = [NumberArgument(n, "i32") for n in shape.extent]
    return [MapArgument(operand, tm), *extents, *(NumberArgument(n, "i64") for n in shape.stride)]


def tools_of(program: Program) -> str:
    """Return what makes the image: Triton with its version.

    Raises:
        MissingExtra: Triton is not installed.
    """
    del program
    try:
        return f"triton {version('triton')}"
    except PackageNotFoundError:
        raise MissingExtra("triton is missing; install legalsat[triton], on Linux") from None


def image_of(program: Program) -> Image:
    """Compile a program of one kernel with Triton; needs no GPU.

    Raises:
        LegalSatError: Triton's interpreter takes its compiler's place, or this Triton passes other parameters.
    """
    compiled = _compiled(program)
    made = launched(program.recipes[0], compiled.asm["ptx"], compiled.metadata._asdict())
    return Image(compiled.asm["cubin"], (made,))


def ptx_of(program: Program) -> str:
    """Return the PTX that Triton makes of a program of one kernel; needs no GPU.

    Raises:
        LegalSatError: Triton's interpreter takes its compiler's place.
    """
    return str(_compiled(program).asm["ptx"])


def _compiled(program: Program) -> Any:
    triton = extra("triton", "triton")
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415
    from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction  # noqa: PLC0415

    (recipe,) = program.recipes
    with tempfile.TemporaryDirectory() as folder:
        module = load_module(program.text, Path(folder))
        function = getattr(module, recipe.entry)
        if not hasattr(function, "arg_names") or not isinstance(function, triton.JITFunction):
            raise LegalSatError("TRITON_INTERPRET was 1 when Triton was imported, so it compiles nothing; unset it")
        types = [_type(text, module) for text in program.signature]
        source = (GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource)(
            function,
            dict(zip(function.arg_names, (kind for kind, _ in types), strict=False)),
            {},
            {(i,): [["tt.divisibility", multiple]] for i, (_, multiple) in enumerate(types) if multiple},
        )
        number = re.fullmatch(r"sm_(\d+)\D?", program.architecture)
        assert number is not None
        options = {"num_warps": recipe.threads // LANES, "enable_fp_fusion": False}
        return triton.compile(source, target=GPUTarget("cuda", int(number[1]), LANES), options=options)


def _type(text: str, module: ModuleType) -> tuple[str, int]:
    """Return a type as Triton wants it, and of what number its address is a multiple, 0 for nothing known."""
    kind, _, multiple = text.partition(":")
    for name in ("LOAD_LAYOUT", "STORE_LAYOUT"):
        if name in kind:
            kind = kind.replace(name, repr(getattr(module, name)))
    return kind, int(multiple or 0)


def launched(recipe: Recipe, ptx: str, metadata: dict[str, Any]) -> Recipe:
    """Return a recipe with what Triton decided: threads, shared memory, blocks of a cluster, scratch parameters.

    Args:
        recipe: with the arguments that the kernel's signature names.
        ptx: what Triton compiled it to.
        metadata: of the compiled kernel.

    Raises:
        LegalSatError: the kernel takes other parameters than those and addresses of scratch memory, or it needs such.
    """
    kinds = list(_parameters(ptx, recipe.entry))
    ours = [_kind(argument) for argument in recipe.arguments]
    rest = kinds[len(ours) :]
    scratch = max(metadata.get("global_scratch_size", 0), metadata.get("profile_scratch_size", 0))
    if kinds[: len(ours)] != ours or set(rest) - {64} or scratch:
        raise LegalSatError(
            f"Triton {metadata.get('triton_version', '')} gives {recipe.entry} parameters of {kinds} bits and {scratch}"
            f" bytes of scratch memory, and {ours} are known; install triton 3.6"
        )
    _require_same_maps(recipe, metadata.get("tensordesc_meta") or [])
    blocks = metadata.get("num_ctas", 1)
    threads = re.search(rf"\.entry {recipe.entry}\b.*?\.(?:reqntid|maxntid) (\d+)", ptx, re.DOTALL)
    return replace(
        recipe,
        grid=(recipe.grid[0] * blocks, *recipe.grid[1:]),
        cluster=(blocks, 1, 1),
        threads=int(threads[1]) if threads else recipe.threads,
        shared=metadata["shared"],
        arguments=(*recipe.arguments, *(NumberArgument(0, "u64") for _ in rest)),
        dependent=bool(metadata.get("launch_pdl")),
        cooperative=bool(metadata.get("launch_cooperative_grid")),
    )


def _require_same_maps(recipe: Recipe, described_by_triton: list[dict[str, Any]]) -> None:
    """Raise unless the kernel was compiled for boxes and swizzles of the plan's maps."""
    maps = [one.map for one in recipe.arguments if isinstance(one, MapArgument)]
    theirs = [(tuple(reversed(one["block_size"])), one["swizzle"]) for one in described_by_triton]
    ours = [(tm.box, driver_value("swizzle", tm.swizzle)) for tm in maps]
    if theirs != ours:
        raise LegalSatError(f"Triton expects boxes and swizzles {theirs}, the plan has {ours}; install triton 3.6")


def _parameters(ptx: str, entry: str) -> Iterator[int]:
    """Yield the bits of each parameter of a kernel."""
    found = re.search(rf"\.entry {entry}\s*\((.*?)\)", ptx, re.DOTALL)
    for line in (found[1] if found else "").split(",\n"):
        size = re.search(r"\.[bsuf](\d+)\b.*?(?:\[(\d+)\])?\s*$", line.strip())
        if size:
            yield int(size[1]) * int(size[2] or 1)


def _kind(argument: Argument) -> int:
    if isinstance(argument, MapArgument):
        return 8 * 128
    return _C_BITS[argument.type] if isinstance(argument, NumberArgument) else 64


class _Words:
    """Memory of the host, as much of a tensor as Triton's interpreter asks for."""

    def __init__(self, address: int, dtype: str) -> None:
        self._address, self.dtype = address, dtype

    def data_ptr(self) -> int:
        return self._address

    def untyped_storage(self) -> _Words:
        return self

    def cpu(self) -> _Words:
        return self

    def new_empty(self, *_: Any, **__: Any) -> _Words:
        return _Words(0, self.dtype)

    def set_(self, storage: _Words, *_: Any) -> None:
        self._address = storage._address

    def copy_(self, other: _Words) -> None:
        assert other._address == self._address, "nothing was moved, so nothing goes back"

    def storage_offset(self) -> int:
        return 0

    size = stride = storage_offset


def interpreter_of(program: Program) -> Callable[..., None]:
    """Return a function of the host's addresses that runs a program by threads in Triton's interpreter.

    Raises:
        LegalSatError: the program is by tensor maps, which only a GPU has, or Triton was imported to compile.
    """
    (recipe,) = program.recipes
    if any(isinstance(argument, MapArgument) for argument in recipe.arguments):
        raise LegalSatError(
            f"Triton's interpreter has no tensor maps, which {program.subject} goes by; ask synthesize for "
            "means=('threads',)"
        )
    function = _interpreted(program.text, recipe.entry)
    word = program.signature[0].removeprefix("*").replace("i", "int")

    def run(*addresses: int) -> None:
        function[recipe.grid](*(_Words(address, word) for address in addresses))

    return run


@lru_cache(maxsize=64)
def _interpreted(text: str, entry: str) -> Any:
    from triton.runtime.interpreter import InterpretedFunction  # noqa: PLC0415

    assert os.environ.get("TRITON_INTERPRET") == "1"
    with tempfile.TemporaryDirectory() as folder:
        function = getattr(load_module(text, Path(folder)), entry)
        if not isinstance(function, InterpretedFunction):
            raise LegalSatError("Triton was imported before TRITON_INTERPRET was 1; set it before Python begins")
        function.rewrite()  # reads the source, which goes with the folder
    return function
