"""How a product's persistent kernel is launched, whichever backend prints it: relayouts in front, maps, parameters."""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.backends import backend_of
from legalsat.backends.host.maps import map_lines
from legalsat.backends.relayouts import with_relayouts
from legalsat.errors import LegalSatError
from legalsat.extract.cost.cost import NOMINAL
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_maps import (
    Placed,
    extents,
    grid_of,
    laid,
    result_lies,
    result_map,
    result_step,
    sides,
    source_maps,
    steps_of,
    stored_type,
)
from legalsat.extract.kernels.slices import WORKSPACE, Added, added_of
from legalsat.extract.moved.relayouts import relayouts_of
from legalsat.operators.gemm import SCALES, Gemm
from legalsat.plans.product_kernel import WARPS, ProductKernel
from legalsat.program.early import begins_early
from legalsat.program.leaves import THREADS
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    Workspace,
    needed,
)
from legalsat.targets import GRANULE_BYTES, Target

ENTRY = "product"
GIVEN, FLAGS = "given", "flags"  # what clusters give each other by stream-K, and a number for each warp that gave it
FLAG_BYTES = 4
# Blocks behind a product that come in early crowd the processors that it leaves idle, and wait there for it; so many
# for each are as fast as any where one may choose (51 kernels of 3 products on an H200, `slices_early_h200.json`).
CROWD = 3
# Policies of L2 as loads name them; the values are CuTe's (`TMA::CacheHintSm90`). An operand that one row or column of
# clusters reads alone is dropped first, and the other one kept: 0.979 of the time (25 products on an H200, 0.928 to
# 1.006). Where both are read again it takes 1.02 times as long (28), of groups and batches 1.02 to 1.05.
EVICT_NORMAL, EVICT_FIRST, EVICT_LAST = 0x1000000000000000, 0x12F0000000000000, 0x14F0000000000000


def launched(  # noqa: PLR0917 - a kernel, and what a backend adds to it
    gemm: Gemm,
    kernel: ProductKernel,
    target: Target,
    text: str,
    builder: str,
    recipe: Recipe | None = None,
    signature: tuple[str, ...] = (),
) -> Program:
    """Return the program of a product computed by a kernel, relayouts of its operands in front.

    Args:
        gemm: the product.
        kernel: how it is computed.
        target: the GPU.
        text: of the kernel, and of the one behind that adds slices up where it has any.
        builder: the module that makes an image of it.
        recipe: how the kernel is launched, where its parameters are others than those of backends cute and ptx.
        signature: types of its parameters, where what makes the image asks for them.

    Raises:
        LegalSatError: the kernel stores a tile during more stages of the next than the product's k has, or splits k
            among more blocks.
    """
    least = kernel.least_k_tiles  # with less some block would multiply what nobody loads
    if kernel.ragged != "k" and isinstance(gemm.k, int) and kernel.k_tiles(gemm.k) < least:
        raise LegalSatError(
            f"{kernel} takes tiles of {least} stages along k at least, which {gemm} has not; take one of "
            "the kernels that legalsat.synthesize finds for it"
        )
    added = added_of(gemm, kernel)
    c_by_map = kernel.by_boxes and added is None
    launch = recipe or _recipe(gemm, kernel, target)
    made = Program(
        subject=str(gemm),
        architecture=target.architecture,
        text=text,
        operands=(
            Operand("a", needed(gemm.a, GRANULE_BYTES)),
            Operand("b", needed(gemm.b, GRANULE_BYTES)),
            *(Operand(name, tensor) for name, tensor in gemm.others.items()),
            *(Operand(name, tensor) for name, tensor in gemm.indices.items()),
            Operand("c", needed(gemm.c, GRANULE_BYTES if c_by_map else gemm.c.dtype.bytes)),
        ),
        recipes=(launch, *([_behind(added, _idle(launch, target))] if added else [])),
        workspaces=(*((Workspace(WORKSPACE, added.bytes),) if added else ()), *_given(kernel, launch)),
        signature=signature,
        builder=builder,
    )
    return with_relayouts(made, relayouts_of(gemm, kernel, target), backend_of(made))


def reads(kernel: ProductKernel) -> tuple[str, str]:
    """Return the operands that a kernel takes for its A and for its B."""
    a, b = kernel.operands
    return a.lower(), b.lower()


def dependent(gemm: Gemm, kernel: ProductKernel) -> bool:
    """Return whether a kernel may be brought in before what is in front of it ends, as its program waits for that."""
    return begins_early(printed_program(kernel, stored_type(gemm, kernel).bytes).everybody)


def launch_lines(program: Program) -> Iterator[str]:
    """Yield how a program's kernel is launched, in words."""
    for recipe in program.recipes:
        yield (
            f"Launch {recipe.entry} with {recipe.grid[0]} blocks of {recipe.threads} threads, clusters of "
            f"{recipe.cluster[0]}, {recipe.shared} bytes of dynamic shared memory:"
        )
        for argument in recipe.arguments:
            yield from _said(argument)


def _said(argument: Argument) -> list[str]:
    """Return an argument in words."""
    if isinstance(argument, MapsArgument):
        return [line for one in argument.maps for line in _said(one)]
    if isinstance(argument, MapArgument):
        return [
            f"  by value, {argument.map}, at {argument.operand} and {argument.offset} bytes",
            *map_lines(argument.map),
        ]
    if isinstance(argument, NumberArgument):
        return [f"  {argument.type} {argument.value}"]
    return [f"  the address of {argument.operand}"]


def _recipe(gemm: Gemm, kernel: ProductKernel, target: Target) -> Recipe:
    (m, n), (a, b) = extents(gemm, kernel), reads(kernel)
    tiles_m, tiles_n = kernel.clusters(m, n)
    of_a, of_b = source_maps(gemm, kernel)
    of_c = result_map(gemm, kernel) if kernel.by_boxes else of_b[:1]  # which is not read
    if kernel.realign == "tiles" and not kernel.by_boxes:
        of_c = of_b[:1] * kernel.phases
    first, second = (laid(one, before) for one, before in zip(sides(gemm, kernel), kernel.relayouts, strict=True))
    _, c_pitch = result_lies(gemm, kernel)
    result = "c" if kernel.slices == 1 else WORKSPACE
    arguments: tuple[Argument, ...] = (
        MapsArgument((*_maps(a, of_a), *_maps(b, of_b), *_maps(result if kernel.by_boxes else b, of_c))),
        *(NumberArgument(number, "i32") for number in (m, n, gemm.k, tiles_m, tiles_n, kernel.group)),
        AddressArgument(a),
        NumberArgument(first.pitch, "i64"),
        AddressArgument(result),
        NumberArgument(c_pitch, "i64"),
        *(AddressArgument(name) if gemm.scaled else NumberArgument(0, "u64") for name in _scales(kernel)),
        *(NumberArgument(hint, "u64") for hint in _hints(gemm, kernel)),
        *_of_members(gemm, kernel),
        *((AddressArgument(b), NumberArgument(second.pitch, "i64")) if any(kernel.aligned) or kernel.slides else ()),
        *_of_loose(gemm, kernel),
        *((AddressArgument(GIVEN), AddressArgument(FLAGS)) if kernel.stream_k else ()),
    )
    return Recipe(
        ENTRY,
        (grid_of(gemm, kernel, target), 1, 1),
        kernel.threads,
        kernel.shared_bytes,
        arguments,
        cluster=(kernel.cluster_blocks, 1, 1),
        dependent=dependent(gemm, kernel),
    )


def _given(kernel: ProductKernel, launch: Recipe) -> tuple[Workspace, ...]:
    """Return the memory through which clusters give sums by stream-K, and what says that they are there."""
    if not kernel.stream_k:
        return ()
    ctas, flags = launch.grid[0], kernel.warpgroups * WARPS * FLAG_BYTES
    return Workspace(GIVEN, ctas * kernel.given_bytes), Workspace(FLAGS, ctas * flags, zeroed=True)


def _hints(gemm: Gemm, kernel: ProductKernel) -> tuple[int, int]:
    """Return what loads of A and of B tell L2: to drop first what is read once, and to keep the other operand."""
    a, b = kernel.streamed if not gemm.members.extents else (False, False)
    if not (a or b):
        return EVICT_NORMAL, EVICT_NORMAL
    return EVICT_FIRST if a else EVICT_LAST, EVICT_FIRST if b else EVICT_LAST


def _scales(kernel: ProductKernel) -> tuple[str, ...]:
    """Return the scales of what the kernel takes for A and for B."""
    return SCALES[::-1] if kernel.swapped else SCALES


def _of_members(gemm: Gemm, kernel: ProductKernel) -> Iterator[Argument]:
    """Yield what a kernel is told of a batch, of elements of C that lie apart, and of groups of rows."""
    members = gemm.members
    yield from (NumberArgument(extent, "i32") for extent in members.batch)
    yield from (NumberArgument(step, "i64") for step in members.of("C")[: len(members.batch)])
    if kernel.store == "elements":
        yield NumberArgument(result_step(gemm, kernel), "i64")
    if members.ragged:
        yield from (AddressArgument(name) for name in gemm.indices)
        yield NumberArgument(members.groups, "i32")


def _of_loose(gemm: Gemm, kernel: ProductKernel) -> Iterator[Argument]:
    """Yield how far apart members are that begin anywhere, in bytes along each axis."""
    for loose, steps in zip(kernel.loose, steps_of(gemm, kernel), strict=True):
        yield from (NumberArgument(step, "i64") for step in steps if loose)


def _idle(launch: Recipe, target: Target) -> int:
    """Return how many processors a product leaves idle."""
    return max(0, (target.device or NOMINAL).processors - int(launch.grid[0]))


def _behind(added: Added, idle: int) -> Recipe:
    """Return how the kernel is launched that adds slices up, of processors that are idle meanwhile."""
    numbers = zip(added.kernel.parameters[2:], added.numbers, strict=True)
    arguments = (NumberArgument(number, kind) for (kind, _), number in numbers)
    addresses = (AddressArgument(WORKSPACE), AddressArgument("c"))
    return Recipe(
        added.kernel.entry,
        (added.blocks, 1, 1),
        THREADS,
        0,
        (*addresses, *arguments),
        cluster=(1, 1, 1),
        dependent=added.blocks <= CROWD * idle and begins_early(added.pipeline.roles[0].body),
    )


def _maps(name: str, placed: list[Placed]) -> tuple[MapArgument, ...]:
    return tuple(MapArgument(name, one.map, one.offset) for one in placed)
