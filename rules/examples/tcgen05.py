"""Examples of tcgen05 and of tensor memory, on a chip that has both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from legalsat.rules.examples.example import Example
from legalsat.units.tcgen05 import KINDS, InstructionDescriptor, Scales
from legalsat.units.tcgen05_sites import (
    Accumulator,
    Executed,
    InstructionBits,
    IssuedOnce,
    KernelGroups,
    PeerUse,
    ScaleFactors,
    Tcgen05Mma,
    Tcgen05Tile,
    TensorMemoryAllocation,
    TensorMemoryCopy,
    TensorMemoryExit,
    TensorMemoryFree,
    TensorMemoryPair,
    TensorMemoryTransfer,
    TensorMemoryUse,
    WarpWide,
)

E8M0, NVFP4 = Scales("e8m0", 32), Scales("e4m3", 16)
# What a legal instruction of each kind multiplies.
_LEGAL: dict[str, tuple[str, str, int, int]] = {
    "f16": ("bf16", "bf16", 128, 128),
    "tf32": ("tf32", "tf32", 128, 128),
    "f8f6f4": ("e4m3", "e5m2", 128, 128),
    "i8": ("u8", "i8", 128, 128),
    "mxf8f6f4": ("e4m3", "e2m1", 128, 128),
    "mxf4": ("e2m1", "e2m1", 128, 128),
    "mxf4nvf4": ("e2m1", "e2m1", 128, 128),
}
_SCALES = {"mxf8f6f4": E8M0, "mxf4": E8M0, "mxf4nvf4": NVFP4}
_SITE = {field for field in Tcgen05Mma.__dataclass_fields__ if field != "descriptor"}


def mma(kind: str = "f16", **fields: Any) -> Tcgen05Mma:
    """Return the site of a legal multiply of a kind in one CTA, but for the fields given, the site's or the word's."""
    a, b, m, n = _LEGAL[kind]
    word = {"a": a, "b": b, "m": m, "n": n, **{name: value for name, value in fields.items() if name not in _SITE}}
    site = {"scales": _SCALES.get(kind), **{name: value for name, value in fields.items() if name in _SITE}}
    return Tcgen05Mma(InstructionDescriptor(kind, **word), **site)


def _load(**fields: Any) -> TensorMemoryTransfer:
    legal = TensorMemoryTransfer(instruction="ld", shape="32x32b", num=32, warp=5, lane=32, registers=32)
    return replace(legal, **fields)


def _sums(**fields: Any) -> Accumulator:
    return replace(Accumulator(half=False, lane=0, columns=128, needed=128), **fields)


_USE = TensorMemoryUse("sums", first=0, count=128, allocated=256)
EXAMPLES = tuple(
    Example(code, refused, repaired, "b200")
    for code, refused, repaired in (
        ("TCGEN001", mma("mxf4", wide=True), mma("mxf4")),
        ("TCGEN002", mma(d="fp16"), mma(d="fp16", a="fp16", b="fp16")),
        ("TCGEN003", mma(m=256), mma(m=256, cta_group=2)),
        ("TCGEN004", mma("i8", n=40), mma("i8", n=48)),
        ("TCGEN005", mma(n=24, a_in_tensor_memory=True), mma(n=32, a_in_tensor_memory=True)),
        ("TCGEN006", mma("f8f6f4", n=24, b_major="MN"), mma("f8f6f4", n=24)),
        ("TCGEN007", mma("f8f6f4", a="e3m2", a_major="MN"), mma("f8f6f4", a_major="MN")),
        ("TCGEN008", mma("tf32", b_major="MN", b_swizzle="128B"), mma("tf32", b_major="MN", b_swizzle="128B_atom_32B")),
        ("TCGEN009", mma(a_in_tensor_memory=True, a_major="MN"), mma(a_in_tensor_memory=True)),
        ("TCGEN010", mma("mxf4", scales=NVFP4), mma("mxf4nvf4")),
        ("TCGEN011", mma("mxf4", a_scale_id=1), mma("mxf4", a_scale_id=2)),
        ("TCGEN012", mma(ws=True, cta_group=2), mma(ws=True)),
        ("TCGEN013", mma("i8", negate_a=True), mma("i8", saturate=True)),
        ("TCGEN014", mma(mask_words=8), mma(m=256, mask_words=8, cta_group=2)),
        ("TCGEN015", mma("f8f6f4", scale_d=1), mma("tf32", scale_d=1)),
        ("TCGEN016", mma(shifts_a=True), mma(shifts_a=True, a_in_tensor_memory=True)),
        ("TCGEN017", IssuedOnce("tcgen05.commit", 32), IssuedOnce("tcgen05.commit", 1)),
        ("TCGEN018", Tcgen05Tile(KINDS["f16"], (192, 100, 64)), Tcgen05Tile(KINDS["f16"], (192, 104, 64))),
        (
            "TCGEN019",
            InstructionBits(0x08200030, "kind::f16 has no type of D 3 in bits 4 and 5"),
            InstructionBits(0x08200010),
        ),
        ("TMEM001", TensorMemoryAllocation(48), TensorMemoryAllocation(64)),
        ("TMEM002", TensorMemoryAllocation(256, 512, 512), TensorMemoryAllocation(256, 256, 256)),
        ("TMEM003", TensorMemoryAllocation(128, 64, 64), TensorMemoryAllocation(64, 128, 128)),
        ("TMEM004", TensorMemoryAllocation(32, relinquished=True), TensorMemoryAllocation(32)),
        ("TMEM005", TensorMemoryFree("sums", 64, False, 64), TensorMemoryFree("sums", 64, True, 64)),
        ("TMEM006", TensorMemoryExit(0, ("sums",)), TensorMemoryExit(0, ())),
        ("TMEM007", replace(_USE, live=False), _USE),
        ("TMEM008", replace(_USE, first=192), replace(_USE, first=128)),
        ("TMEM009", TensorMemoryPair("sums", "A", 0, 128, 96, 32), TensorMemoryPair("sums", "A", 0, 128, 128, 32)),
        ("TMEM010", _load(lane=64), _load()),
        ("TMEM011", WarpWide("tcgen05.ld", same_address=False), WarpWide("tcgen05.ld")),
        ("TMEM012", _load(shape="16x256b", num=64, registers=256), _load(shape="16x256b", registers=128)),
        ("TMEM013", _load(shape="16x128b"), _load(shape="16x128b", registers=64)),
        ("TMEM014", WarpWide("tcgen05.alloc", converged=False), WarpWide("tcgen05.alloc")),
        ("TMEM015", KernelGroups((1, 2)), KernelGroups((2,))),
        ("TMEM016", PeerUse("tcgen05.mma", 1), PeerUse("tcgen05.mma", 2)),
        ("TMEM017", PeerUse("tcgen05.mma", 2, peer_exited=True), PeerUse("tcgen05.mma", 2)),
        ("TMEM018", PeerUse("tcgen05.dealloc", 2, met=False), PeerUse("tcgen05.dealloc", 2)),
        ("TMEM019", PeerUse("tcgen05.dealloc", 4, owned=False), PeerUse("tcgen05.dealloc", 4)),
        ("TMEM020", _sums(half=True, lane=32), _sums(half=True, lane=16)),
        ("TMEM021", _sums(columns=64), _sums()),
        ("TMEM022", ScaleFactors("A", 4, 4, partitions=1), ScaleFactors("A", 4, 4, partitions=4)),
        ("TMEM023", ScaleFactors("B", 4, 8, partitions=4), ScaleFactors("B", 8, 8, partitions=4)),
        ("TMEM024", TensorMemoryCopy("32x128b", ""), TensorMemoryCopy("32x128b", "warpx4")),
        ("TMEM025", Executed("tcgen05.mma", 0, exited=True), Executed("tcgen05.mma", 0)),
        ("TMEM026", PeerUse("tcgen05.alloc", 2, begun=False), PeerUse("tcgen05.alloc", 2)),
    )
)
