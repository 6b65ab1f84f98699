"""Runs what `bench.gpu.chip.wgmma_plans` wrote down: needs numpy and a driver, no LegalSAT and no torch.

Every combination multiplies twice: small integers, whose sums every accumulator holds exactly, so that each element
must equal float64's; and random numbers of the operand's type, which must come within the bound below. Integer
operands are random and exact both times.

The bound, in units of sum |a b|: an instruction aligns its products and the running sum to the largest of them and cuts
off what is below its last bit, so K products and 8 running sums each lose less than one such bit. Sums of fp32 keep 23
bits of 16- and 32-bit operands, and of 8-bit floats 13 (as published measurements have it). Sums of fp16 are besides
rounded to 11 bits after each instruction.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gpu.driver import Device, DriverError, Kernel

STEPS, THREADS, ROWS_A, ROWS_B = 8, 128, 128, 256
BITS = {"fp16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "i8": 8}
RAW: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
KEPT_BITS = {8: 13, 16: 23, 32: 23}
FILL = 0x7F  # NaN or huge in every type, so that reading what nobody wrote shows
DATA_BYTES, PROBE, OUTSIDE = 64 * 1024, (64, 16), 65535
_SMALL = 3
_SEED = 20

Numbers = NDArray[np.float64]
Raw = NDArray[Any]


def small_float_table(element: str) -> Numbers:
    """Return the values of all 256 codes of e4m3 or e5m2; infinities and NaN are NaN."""
    mantissa_bits, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[element]
    codes = np.arange(256)
    exponent, fraction = codes >> mantissa_bits & (127 >> mantissa_bits), codes & (1 << mantissa_bits) - 1
    scale = 2.0 ** (np.maximum(exponent, 1) - bias - mantissa_bits)
    values: Numbers = scale * (fraction + np.where(exponent, 1 << mantissa_bits, 0)) * np.where(codes >= 128, -1, 1)
    unusual = codes & 127 == 127 if element == "e4m3" else exponent == 31
    return np.where(unusual, np.nan, values)


def encoded(values: Numbers, element: str) -> tuple[Numbers, Raw]:
    """Return values that the type holds, near those given, and their bits."""
    if element == "fp16":
        half = values.astype(np.float16)
        return half.astype(np.float64), half.view(np.uint16)
    if element in {"bf16", "tf32"}:
        dropped = 16 if element == "bf16" else 13
        word = values.astype(np.float32).view(np.uint32) >> dropped << dropped
        kept = word.view(np.float32).astype(np.float64)
        return kept, (word >> 16).astype(np.uint16) if element == "bf16" else word
    if element == "i8":
        whole = values.astype(np.int8)
        return whole.astype(np.float64), whole.view(np.uint8)
    table = small_float_table(element)
    order = np.argsort(table)[: np.count_nonzero(~np.isnan(table))]
    at = np.clip(np.searchsorted(table[order], values), 0, len(order) - 1)
    return table[order][at], order[at].astype(np.uint8)


class Matrices:
    """A and B of one pair of types, in both orders, on the GPU, and their product."""

    def __init__(self, device: Device, types: list[str], *, exact: bool) -> None:
        """Draw them: small integers where `exact`."""
        a, b, self.sums = types
        self.bits = BITS[a]
        self.depth = STEPS * 256 // self.bits
        rng = np.random.default_rng([_SEED, exact, *map(ord, "".join(types))])

        def drawn(rows: int) -> Numbers:
            shape = (rows, self.depth)
            if a == "i8":
                return rng.integers(-128, 128, shape).astype(np.float64)
            return rng.integers(-_SMALL, _SMALL + 1, shape).astype(np.float64) if exact else rng.standard_normal(shape)

        self.a, self.raw_a = encoded(drawn(ROWS_A), a)
        self.b, self.raw_b = encoded(drawn(ROWS_B), b)
        self.product, self.scale = self.a @ self.b.T, np.abs(self.a) @ np.abs(self.b).T
        self.pointers = {}
        for operand, raw in (("a", self.raw_a), ("b", self.raw_b)):
            for major, stored in (("K", raw), ("MN", raw.T)):
                data = np.ascontiguousarray(stored).tobytes()
                self.pointers[operand, major] = device.allocate(len(data))
                device.write(self.pointers[operand, major], data)

    @property
    def bound(self) -> float:
        """What errors stay below, in units of sum |a b|."""
        if self.sums == "i32":
            return 0.0
        lost = (self.depth + STEPS) * 2.0 ** -KEPT_BITS[self.bits]
        return lost + (STEPS * 2.0**-11 if self.sums == "fp16" else 0.0)


class Bench:
    """The prepared folder and a GPU."""

    def __init__(self, folder: Path) -> None:
        """Open both."""
        self.folder = folder
        self.device = Device()
        self.tables = dict(np.load(folder / "tables.npz"))
        self.constants = json.loads((folder / "constants.json").read_text())
        self._modules: dict[str, Any] = {}
        self._kernels: dict[str, Kernel] = {}
        self._matrices: dict[tuple[str, bool], Matrices] = {}
        size = self.constants["image_bytes"]
        self.image = self.device.allocate(size)
        self.device.write(self.image, bytes([FILL]) * size)
        self.table, self.fragments = self.device.allocate(8192), self.device.allocate(STEPS * THREADS * 16)
        self.result = self.device.allocate(THREADS * 128 * 4)

    @cached_property
    def no_map(self) -> bytes:
        """Stand-in for a tensor map that nobody reads."""
        return bytes(128)

    def kernel(self, name: str) -> Kernel:
        """Return a kernel by its name, whose types say which module holds it."""
        if name not in self._kernels:
            module = "_".join(name.split("_")[1:4])
            if module not in self._modules:
                self._modules[module] = self.device.load((self.folder / f"{module}.cubin").read_bytes())
            self._kernels[name] = self._modules[module].kernel(name)
        return self._kernels[name]

    def matrices(self, types: list[str], *, exact: bool) -> Matrices:
        """Return the matrices of a pair of types."""
        key = ("_".join(types), exact)
        if key not in self._matrices:
            self._matrices[key] = Matrices(self.device, types, exact=exact)
        return self._matrices[key]

    def launch(self, name: str, maps: list[bytes], head: list[int], boxes: list[list[int]], n: int) -> Raw:
        """Run a kernel and return its registers, words of shape (threads, registers)."""
        registers = int(self.constants["registers"][name])
        table = np.array([*head, *(number for box in boxes for number in box)], dtype=np.uint64)
        self.device.write(self.table, table.tobytes())
        self.device.write(self.result, b"\xa5" * (THREADS * registers * 4))
        self.kernel(name)(
            *maps,
            *(self.table, self.image, self.fragments, self.result),
            grid=(1,),
            block=(THREADS,),
            shared=self.constants["shared_bytes"],
        )
        self.device.synchronize()
        words = np.frombuffer(self.device.read(self.result, THREADS * registers * 4), dtype=np.uint32)
        return words.reshape(THREADS, registers)

    def sums(self, words: Raw, n: int, kind: str) -> Numbers:
        """Return D of shape (64, n) of what threads held."""
        values = words.view({"fp32": np.float32, "fp16": np.float16, "i32": np.int32}[kind]).astype(np.float64)
        flat = np.empty(64 * n)
        flat[self.tables[f"d_{n}"]] = values
        return flat.reshape((64, n), order="F")

    def write_fragments(self, rows: Raw, bits: int) -> None:
        """Put A, raw elements of shape (64, K), where threads load their registers from."""
        step = 256 // bits
        place = self.tables[f"a_{bits}"]
        held = [rows[:, s * step :][:, :step][place % 64, place // 64] for s in range(STEPS)]
        self.device.write(self.fragments, np.ascontiguousarray(held).tobytes())

    def multiply(self, launch: dict[str, Any], *, exact: bool) -> tuple[Numbers, Matrices]:
        """Run a combination; return D and what it was made of."""
        matrices = self.matrices(launch["types"], exact=exact)
        maps, words = [], []
        count, boxes = [0, 0], []
        for i, operand in enumerate("ab"):
            one = launch.get(operand)
            if one is None:
                maps.append(self.no_map)
                words += [0] * STEPS
                first = launch["rows"][0]
                self.write_fragments(matrices.raw_a[first : first + 64], matrices.bits)
                continue
            major = launch.get("tile", {}).get("major", launch["majors"][1]) if operand == "b" else launch["majors"][0]
            maps.append(self.device.encode(one["map"], matrices.pointers[operand, major]))
            words += one["words"]
            count[i] = len(one["boxes"])
            boxes += one["boxes"]
        total = sum(launch[operand]["bytes"] for operand in "ab" if operand in launch)
        found = self.launch(launch["kernel"], maps, [*count, total, *words], boxes, launch["n"])
        return self.sums(found, launch["n"], launch["types"][2]), matrices

    def check(self, launch: dict[str, Any]) -> tuple[bool, float, float]:
        """Return whether integers come out exactly, and the worst error of random numbers in units of sum |a b|."""
        a, b = launch["rows"]
        at = (slice(a, a + 64), slice(b, b + launch["n"]))
        found, matrices = self.multiply(launch, exact=True)
        exact = bool(np.array_equal(found, matrices.product[at]))
        found, matrices = self.multiply(launch, exact=False)
        with np.errstate(invalid="ignore"):
            error = np.abs(found - matrices.product[at]) / matrices.scale[at]
        return exact, float(np.nan_to_num(error, nan=np.inf).max()), matrices.bound

    def wrong(self, launch: dict[str, Any], written: Raw | None) -> str:
        """Return what a wrong descriptor does: "right", "wrong: ..." or the driver's error."""
        if written is not None:
            matrices = self.matrices(launch["types"], exact=True)
            size = matrices.bits // 8
            image = np.full(self.constants["image_bytes"], FILL, dtype=np.uint8)
            rows = matrices.raw_b[: len(written)]
            for byte in range(size):
                image[written - self.constants["image"] + byte] = (rows >> 8 * byte & 0xFF).astype(np.uint8)
            self.device.write(self.image, image.tobytes())
        try:
            found, matrices = self.multiply(launch, exact=True)
        except DriverError as error:
            return error.name
        differ = found != matrices.product[:64, : launch["n"]]
        return f"wrong: {int(differ.sum())} of {differ.size} sums" if differ.any() else "right"

    def probe(self, start: int, observed: NDArray[np.uint16]) -> None:
        """Do single reads from number `start` on; fill their rows of `observed` with the elements that arrived."""
        base, probes = self.constants["image"], dict(np.load(self.folder / "probes.npz"))
        # Distinct numbers of fp16, none of them zero, one, infinite or subnormal.
        codes = np.setdiff1d(np.r_[0x0400:0x7C00, 0x8400:0xFC00], [0x3C00])[: DATA_BYTES // 2].astype(np.uint16)
        back = np.full(65536, OUTSIDE, dtype=np.uint16)
        back[codes] = np.arange(len(codes))
        unit, zeros = base + DATA_BYTES, base + DATA_BYTES + 4096
        image = np.zeros(self.constants["image_bytes"] // 2, dtype=np.uint16)
        image[: len(codes)] = codes
        n, k = np.meshgrid(np.arange(64), np.arange(16), indexing="ij")
        image[DATA_BYTES // 2 + n * 8 + k // 8 * 512 + k % 8] = np.where(n == k, 0x3C00, 0)
        self.device.write(self.image, image.tobytes())
        # Without a swizzle: 1024 bytes to the next 16 of K, 128 to the next eight rows.
        plain = [unit >> 4 | 64 << 16 | 8 << 32, *([zeros >> 4 | 64 << 16 | 8 << 32] * (STEPS - 1))]
        rows = np.zeros((64, 16 * STEPS), dtype=np.uint16)
        rows[np.arange(64), np.arange(64) % 16] = 0x3C00
        self.write_fragments(rows, 16)
        for i in range(start, len(probes["word"])):
            word, major = int(probes["word"][i]), "MN" if probes["major"][i] else "K"
            of_b = bool(probes["operand"][i])
            name = f"k_fp16_fp16_fp32_K_{major}_rs_64" if of_b else f"k_fp16_fp16_fp32_{major}_K_ss_64"
            words = [*([0] * STEPS), *([word] * STEPS)] if of_b else [*([word] * STEPS), *plain]
            found = self.sums(self.launch(name, [self.no_map] * 2, [0, 0, 0, *words], [], 64), 64, "fp32")
            values = found[:16].T if of_b else found[:, :16]
            observed[i] = back[values.astype(np.float16).view(np.uint16)]
