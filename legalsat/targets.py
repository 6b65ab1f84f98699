"""What each GPU can do: one frozen table a chip.

A unit that the chip lacks is `None`, so no code compares architecture numbers. To add a target, add a table here.
Ids in comments are those of the project's numbered hardware facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from legalsat.errors import InvalidInput
from legalsat.target_names import chip_named, table_named, unknown_name

# Limits that every tensor memory accelerator shares so far.
MAX_RANK = 5
MAX_BOX_EXTENT = 256  # elements
MAX_COLUMN_PIXELS = 1024
GRANULE_BYTES = 16

KIB = 1024
MIB = 1024 * KIB


class UnknownTarget(InvalidInput):
    """No target has this name; the message lists those that exist."""


@dataclass(frozen=True, slots=True)
class TmaLimits:
    """What the tensor memory accelerator and the driver's encode call accept.

    Attributes:
        map_types: how many of `legalsat.units.tensor_map.MAP_TYPES` exist here, counted from the first.
        swizzles: how many of `legalsat.units.tensor_map.SWIZZLES` exist here, counted from the first.
        measured: whether the driver was measured on this chip, so that its undocumented rules are known.
        max_rank, max_box_extent, max_element_stride: elements or dimensions.
        max_channels, max_pixels: im2col column limits, elements and pixels.
        max_extent: largest global extent in elements. max_stride: first global stride in bytes that is refused.
        alignment: bytes that addresses and strides must be multiples of.
        shared_alignment: bytes that a box's shared address must be a multiple of.
        store_granule: bytes in which a store writes past the inner extent.
        max_box_bytes: most bytes of one box that the driver accepts; a measurement, None where none was made.
    """

    map_types: int
    swizzles: int
    measured: bool
    max_rank: int = MAX_RANK
    max_box_extent: int = MAX_BOX_EXTENT
    max_element_stride: int = 8
    max_channels: int = 256
    max_pixels: int = MAX_COLUMN_PIXELS
    max_extent: int = 2**32
    max_stride: int = 2**40
    alignment: int = GRANULE_BYTES
    shared_alignment: int = 128
    store_granule: int = GRANULE_BYTES
    max_box_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BankModel:
    """Shared-memory banks: how many, the bytes that one serves at a time, and who accesses them.

    Attributes:
        count: banks.
        bytes: that one bank serves in one wavefront.
        accesses: the table of `legalsat.units.shared_access` with the chip's instructions; empty where there is none.
    """

    count: int
    bytes: int = 4
    accesses: str = ""


@dataclass(frozen=True, slots=True)
class WgmmaLimits:
    """Warpgroup matrix multiply (FACTS WG-03): M rows, N in steps up to a maximum, bytes of K an instruction eats."""

    m: int = 64
    n_step: int = 8
    max_n: int = 256
    k_bytes: int = 32


@dataclass(frozen=True, slots=True)
class Tcgen05Limits:
    """Fifth-generation tensor cores (FACTS TC-02, TC-07, TC-22, TC-23).

    Attributes:
        lanes, columns: of tensor memory; a column is 32 bits of every lane.
        allocation_columns: the fewest that can be allocated.
        wide_k: whether kinds of 4-bit elements multiply 96 of them at once too.
        absolute_leading: whether a matrix descriptor may hold an address for its leading offset (TC-12).
        kinds: names of `legalsat.units.tcgen05.KINDS` that the chip has.
    """

    lanes: int = 128
    columns: int = 512
    allocation_columns: int = 32
    wide_k: bool = False
    absolute_leading: bool = False
    kinds: tuple[str, ...] = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


_GPC = 16  # processors, of which cards have two more at times


@dataclass(frozen=True, slots=True)
class Device:
    """A product that carries the chip: what speed predictions need, by its datasheet.

    Attributes:
        processors: multiprocessors (AMD: compute units).
        memory_bandwidth: bytes a second.
        l2_bytes: bytes of L2.
        bf16_flops: dense bf16 operations a second of the matrix units.
        clusters: clusters of 1, 2, ... blocks that run at once, a block filling a processor; () where not measured.
    """

    processors: int
    memory_bandwidth: float
    l2_bytes: int
    bf16_flops: float
    clusters: tuple[int, ...] = ()

    def clusters_at_once(self, blocks: int) -> int:
        """Return how many clusters of so many blocks, each of which fills a processor, run at once.

        Where that was not measured, GPCs are taken to have 16 processors, which pairs of blocks do not notice, and one
        in sixteen is taken off, as on an H200 some fit less: one cluster too many takes as long as all others together.
        """
        if blocks <= len(self.clusters):
            return self.clusters[blocks - 1]
        if blocks <= 2:
            return max(1, self.processors // blocks)
        whole = self.processors // _GPC * (_GPC // blocks)
        return max(1, whole - -(-whole // _GPC))


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU as a plan sees it.

    Attributes:
        name: architecture or product, such as "sm_90a" or "h200".
        architecture: what the compiler is told, such as "sm_90a" or "gfx942".
        vendor: "nvidia" or "amd".
        lanes: threads of a warp (AMD: wave).
        shared_bytes_per_block, shared_bytes_per_processor: bytes of shared memory (AMD: LDS).
        registers_per_processor: 32-bit registers of an SM (AMD: of a compute unit).
        banks: how shared memory serves accesses.
        tma, wgmma, tcgen05: the unit's limits, None where the chip lacks the unit.
        cp_async: whether cp.async exists.
        mbarrier: whether barriers count transaction bytes.
        dependent_launch: whether a kernel may be brought in early and wait for those in front by itself
            (griddepcontrol, PTX ISA 9.7.13.13).
        max_cluster: CTAs of a portable cluster, 1 where there are none.
        toolkit: CUDA version that the documents and the driver were read at.
        device: the product's speed, None for a bare architecture.
        multiplies: element types that the matrix units multiply, and how fast beside bf16, by the datasheets.
        basis: what its numbers rest on: "measured", documents and datasheets, or a sibling that it is taken as.
    """

    name: str
    architecture: str
    vendor: str
    shared_bytes_per_block: int
    shared_bytes_per_processor: int
    banks: BankModel
    lanes: int = 32
    registers_per_processor: int = 65536
    tma: TmaLimits | None = None
    wgmma: WgmmaLimits | None = None
    tcgen05: Tcgen05Limits | None = None
    cp_async: bool = False
    mbarrier: bool = False
    dependent_launch: bool = False
    max_cluster: int = 1
    toolkit: tuple[int, int] | None = None
    device: Device | None = None
    multiplies: tuple[tuple[str, float], ...] = ()
    basis: str = "documents"

    def __str__(self) -> str:
        return self.name


_HALVES = (("fp16", 1.0), ("bf16", 1.0))
_AMPERE_TYPES = (*_HALVES, ("tf32", 0.5), ("fp32", 0.5), ("i8", 2.0), ("u8", 2.0))  # fp32 is multiplied as tf32
_FP8 = (("e4m3", 2.0), ("e5m2", 2.0))
_HOPPER_TMA = TmaLimits(map_types=13, swizzles=4, measured=True, max_box_bytes=228 * KIB)  # M-02, M-05
_BLACKWELL_TMA = TmaLimits(map_types=16, swizzles=7, measured=False)  # TM-22; nobody measured the driver here

_WRITTEN = (
    Target(
        "sm_80",
        "sm_80",
        "nvidia",
        shared_bytes_per_block=163 * KIB,  # HW-01
        shared_bytes_per_processor=164 * KIB,
        banks=BankModel(32, accesses="sm_80"),
        cp_async=True,
        toolkit=(13, 0),
        multiplies=(*_AMPERE_TYPES, ("fp64", 1 / 16)),
    ),
    Target(
        "sm_90a",
        "sm_90a",
        "nvidia",
        shared_bytes_per_block=227 * KIB,
        shared_bytes_per_processor=228 * KIB,
        banks=BankModel(32, accesses="sm_90"),
        tma=_HOPPER_TMA,
        wgmma=WgmmaLimits(),
        cp_async=True,
        mbarrier=True,
        dependent_launch=True,
        max_cluster=8,  # HW-05
        toolkit=(13, 0),
        multiplies=(*_AMPERE_TYPES, *_FP8),
        basis="measured on an H200",
    ),
    Target(
        "sm_100a",
        "sm_100a",
        "nvidia",
        shared_bytes_per_block=227 * KIB,
        shared_bytes_per_processor=228 * KIB,
        banks=BankModel(32, accesses="sm_90"),
        tma=_BLACKWELL_TMA,
        tcgen05=Tcgen05Limits(),
        cp_async=True,
        mbarrier=True,
        dependent_launch=True,
        max_cluster=8,
        toolkit=(13, 0),
        multiplies=(*_AMPERE_TYPES, *_FP8),
    ),
    Target(
        "sm_120a",
        "sm_120a",
        "nvidia",
        shared_bytes_per_block=99 * KIB,
        shared_bytes_per_processor=100 * KIB,
        banks=BankModel(32, accesses="sm_90"),
        tma=_BLACKWELL_TMA,  # S12-01
        cp_async=True,
        mbarrier=True,
        dependent_launch=True,
        max_cluster=8,
        toolkit=(13, 0),
        multiplies=(*_AMPERE_TYPES, *_FP8),
    ),
    Target(
        "gfx942",
        "gfx942",
        "amd",
        shared_bytes_per_block=64 * KIB,  # AMD-01
        shared_bytes_per_processor=64 * KIB,
        banks=BankModel(32, accesses="gfx942"),  # AMD-03
        lanes=64,
        registers_per_processor=512 * KIB // 4,
        multiplies=(*_HALVES, ("i8", 2.0), ("fp32", 1 / 8), ("fp64", 1 / 8)),
    ),
    Target(
        "gfx950",
        "gfx950",
        "amd",
        shared_bytes_per_block=160 * KIB,
        shared_bytes_per_processor=160 * KIB,
        banks=BankModel(64, accesses="gfx950"),
        lanes=64,
        registers_per_processor=512 * KIB // 4,
        multiplies=(*_HALVES, *_FP8, ("i8", 2.0), ("fp32", 1 / 16), ("fp64", 1 / 32)),
    ),
)
_BY_ARCHITECTURE = {t.name: t for t in _WRITTEN}


def _like(base: str, name: str, **differs: Any) -> Target:
    """Return the table of an architecture that differs from a written one in so much, as far as documents go."""
    return replace(_BY_ARCHITECTURE[base], name=name, architecture=name, basis=f"as {base}, not measured", **differs)


_BLACKWELL_KINDS = ("f16", "tf32", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
_SMALL = {"shared_bytes_per_block": 99 * KIB, "shared_bytes_per_processor": 100 * KIB}  # HW-01
_SIBLINGS = (
    _like("sm_80", "sm_86", multiplies=_AMPERE_TYPES, **_SMALL),
    _like("sm_80", "sm_87", multiplies=_AMPERE_TYPES),
    _like("sm_80", "sm_89", multiplies=(*_AMPERE_TYPES, *_FP8), **_SMALL),
    # TC-02, TC-07, TC-12; its i8 is left to threads' instructions.
    _like(
        "sm_100a",
        "sm_103a",
        tcgen05=Tcgen05Limits(wide_k=True, absolute_leading=True, kinds=_BLACKWELL_KINDS),
        multiplies=(*_HALVES, ("tf32", 0.5), ("fp32", 0.5), *_FP8),
    ),
    _like("sm_100a", "sm_110a"),  # HW-01, TC-01; sm_101a until CUDA 12.9
    _like("sm_120a", "sm_121a"),
    # AMD-01; 383 TFLOP/s of bf16 and of i8, 96 of fp32 and of fp64 by the datasheet. How its LDS serves lanes was not
    # found.
    _like(
        "gfx942",
        "gfx90a",
        banks=BankModel(32, accesses="gfx90a"),
        multiplies=(*_HALVES, ("i8", 1.0), ("fp32", 1 / 4), ("fp64", 1 / 4)),
    ),
)
_ARCHITECTURES = sorted((*_WRITTEN, *_SIBLINGS), key=lambda t: (t.vendor != "nvidia", len(t.name.rstrip("a")), t.name))
_BY_ARCHITECTURE |= {t.name: t for t in _SIBLINGS}


def _product(name: str, architecture: str, device: Device, basis: str = "") -> Target:
    wgmma = _BY_ARCHITECTURE[architecture].wgmma is not None
    basis = basis or ("as h200, not measured" if wgmma else "datasheet, not measured")
    return replace(_BY_ARCHITECTURE[architecture], name=name, device=device, basis=basis)


# HW-06, HW-07, AMD-01; the H200's processors and L2 were read off the device. So were its clusters, by
# cuOccupancyMaxActiveClusters with 220,000 bytes of shared memory (2026-11-22, driver 580.159.04): they cannot leave a
# GPC, and other chips of the product may have other GPCs.
_H200_CLUSTERS = (132, 66, 39, 30, 22, 17, 15, 15)
# The others by datasheets and architecture whitepapers: dense bf16 with sums of fp32, of which consumers' cards have
# half; a superchip's or module's numbers are those of one GPU, an MI250X's those of one of its two dies, which is what
# programs see. No datasheet has the processors of GB200, GB300 and B300 (public runs print 152, 152 and 148), the L2 of
# GH200 and H20 (public runs print 60 MiB), of GB10 (24 MiB) and of Thor (32 MiB), and bf16 of GB10 and Thor, which are
# an eighth of their sparse 4-bit rates.
_PRODUCTS = (
    _product("a100", "sm_80", Device(108, 1.55e12, 40 * MIB, 312e12)),
    _product("a100-80gb", "sm_80", Device(108, 2.04e12, 40 * MIB, 312e12)),
    _product("a800", "sm_80", Device(108, 2.04e12, 40 * MIB, 312e12)),
    _product("a30", "sm_80", Device(56, 933e9, 24 * MIB, 165e12)),
    _product("a10", "sm_86", Device(72, 600e9, 6 * MIB, 125e12)),
    _product("a40", "sm_86", Device(84, 696e9, 6 * MIB, 149.7e12)),
    _product("a6000", "sm_86", Device(84, 768e9, 6 * MIB, 154.8e12)),
    _product("rtx3090", "sm_86", Device(82, 936e9, 6 * MIB, 71e12)),
    _product("orin", "sm_87", Device(16, 204.8e9, 4 * MIB, 42.5e12)),
    _product("l4", "sm_89", Device(58, 300e9, 48 * MIB, 121e12)),
    _product("l40", "sm_89", Device(142, 864e9, 96 * MIB, 181e12)),
    _product("l40s", "sm_89", Device(142, 864e9, 96 * MIB, 362e12)),
    _product("rtx4090", "sm_89", Device(128, 1.008e12, 72 * MIB, 165e12)),
    _product("rtx6000ada", "sm_89", Device(142, 960e9, 96 * MIB, 364e12)),
    _product("h100", "sm_90a", Device(132, 3.35e12, 50 * MIB, 989e12)),
    _product("h100-pcie", "sm_90a", Device(114, 2.0e12, 50 * MIB, 756e12)),
    _product("h100-nvl", "sm_90a", Device(132, 3.9e12, 50 * MIB, 835e12)),
    _product("h800", "sm_90a", Device(132, 3.35e12, 50 * MIB, 989e12)),
    _product("h20", "sm_90a", Device(78, 4.0e12, 60 * MIB, 148e12)),
    _product("h200", "sm_90a", Device(132, 4.8e12, 60 * MIB, 989e12, _H200_CLUSTERS), "measured"),
    _product("h200-nvl", "sm_90a", Device(132, 4.8e12, 60 * MIB, 835e12)),
    _product("gh200", "sm_90a", Device(132, 4.0e12, 60 * MIB, 989e12)),
    _product("b200", "sm_100a", Device(148, 8.0e12, 126 * MIB, 2250e12)),
    _product("gb200", "sm_100a", Device(152, 8.0e12, 126 * MIB, 2500e12)),
    _product("b300", "sm_103a", Device(148, 8.0e12, 126 * MIB, 2250e12)),
    _product("gb300", "sm_103a", Device(152, 8.0e12, 126 * MIB, 2500e12)),
    _product("thor", "sm_110a", Device(20, 273e9, 32 * MIB, 258e12)),
    _product("rtx5090", "sm_120a", Device(170, 1.79e12, 96 * MIB, 209e12)),
    _product("rtx5080", "sm_120a", Device(84, 960e9, 64 * MIB, 112e12)),
    _product("rtxpro6000", "sm_120a", Device(188, 1.79e12, 128 * MIB, 503e12)),
    _product("gb10", "sm_121a", Device(48, 273e9, 24 * MIB, 125e12)),
    _product("mi210", "gfx90a", Device(104, 1.6e12, 8 * MIB, 181e12)),
    _product("mi250", "gfx90a", Device(104, 1.6e12, 8 * MIB, 181e12)),
    _product("mi250x", "gfx90a", Device(110, 1.6e12, 8 * MIB, 191e12)),
    _product("mi300a", "gfx942", Device(228, 5.3e12, 256 * MIB, 981e12)),
    _product("mi300x", "gfx942", Device(304, 5.3e12, 256 * MIB, 1307e12)),
    _product("mi325x", "gfx942", Device(304, 6.0e12, 256 * MIB, 1307e12)),
    _product("mi350x", "gfx950", Device(256, 8.0e12, 256 * MIB, 2300e12)),
    _product("mi355x", "gfx950", Device(256, 8.0e12, 256 * MIB, 2500e12)),
)
TARGETS: dict[str, Target] = {t.name: t for t in (*_ARCHITECTURES, *_PRODUCTS)}


def target(name: Any) -> Target:
    """Return the target called `name`: an architecture or a product, as people and drivers write it.

    Args:
        name: such as "sm_90a", "sm_90", "h200", "H100 PCIe" or "NVIDIA GeForce RTX 4090"; a `Target` passes through.

    Raises:
        UnknownTarget: no such target; the message says which names are near, or which table is.
    """
    if isinstance(name, Target):
        return name
    found = table_named(name, TARGETS) if isinstance(name, str) else None
    if found is None:
        raise UnknownTarget(unknown_name(name, TARGETS))
    return TARGETS[found]


def target_of_text(name: Any) -> Target:
    """Return the target called `name` as far as explaining a text needs it, also of chips that have no table.

    Another card of a series is taken as its architecture; an older chip has none of the units of these tables. No plan
    is made for either.

    Raises:
        UnknownTarget: no such chip is known.
    """
    architecture, shared = ("", 0)
    if isinstance(name, str) and table_named(name, TARGETS) is None:
        architecture, shared = chip_named(name, TARGETS)
    if not architecture:
        return target(name)
    shown = name.strip().lower()
    if not shared:
        return replace(TARGETS[architecture], name=shown, basis=f"as {architecture}, not measured")
    return Target(
        shown,
        architecture,
        "amd" if architecture.startswith("gfx") else "nvidia",
        shared,
        shared,
        BankModel(32, accesses="sm_80"),
        multiplies=() if "sm_" <= architecture < "sm_70" else _HALVES[:1],
    )
