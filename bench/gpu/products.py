"""What benches of products share on a GPU: small whole numbers around guards, checks of every byte, turns, processes.

Every product is computed from small whole numbers, whose sums are exact in every format, so that C must be equal to
float64's, rounded once, in every element; and around C, between its rows too, nothing may change.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

GUARD_BYTES = 4096
UNTOUCHED = 0xA5
LAUNCHES = 5
WARM, ROUNDS, CALLS = 3, 15, 10
DTYPES = {"bf16": 16, "fp16": 16, "fp32": 32, "e4m3": 8, "e5m2": 8, "i8": 8}
SMALL = ((1, 8, 2), (17, 40, 9), (100, 37, 25), (129, 257, 33), (300, 136, 125), (640, 512, 12))  # k in 16 bytes
LARGE = (
    (4096, 4096, 4096, "bf16"),
    (4096, 4096, 4096, "fp16"),
    (8192, 8192, 8192, "bf16"),
    (4096, 4096, 4096, "fp32"),
    (4096, 4096, 4096, "e4m3"),
    (4096, 4096, 4096, "i8"),
    (4096, 4095, 4096, "bf16"),
    (4096, 4096, 4095, "bf16"),
    (4096, 50257, 768, "bf16"),
    (16, 7168, 16384, "bf16"),
    (512, 4096, 7168, "bf16"),
)


def products() -> list[tuple[Any, bool]]:
    """Return the products, and which of them are timed."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    found = [(ls.Gemm(m, n, 128 // bits * k, name), False) for name, bits in DTYPES.items() for m, n, k in SMALL]
    for majors in ("KM", "MK", "MM"):
        for m, n, k, name in ((136, 72, 200, "bf16"), (520, 264, 136, "fp16")):
            a, b = (
                ls.Tensor((rows, k), name, (k, 1) if major == "K" else (1, rows))
                for rows, major in zip((m, n), majors, strict=True)
            )
            found.append((ls.Gemm(m, n, k, name, a=a, b=b), False))
    for name, out, n, pitch in (("fp16", "fp16", 37, 40), ("bf16", "fp32", 61, 64), ("e4m3", "e4m3", 250, 250)):
        c = ls.Tensor((200, n), out, (pitch, 1))
        found.append((ls.Gemm(200, n, 144, name, out_dtype=out, c=c), False))
    return found + [(ls.Gemm(*extents), True) for extents in LARGE]


class Runner:
    """One product on the GPU."""

    def __init__(self, folder: Path, entry: dict[str, Any], *, normal: bool = False) -> None:
        """Make its tensors: small whole numbers, or `normal` ones where speed is measured."""
        import torch  # noqa: PLC0415

        from bench.gpu.driver import Device  # noqa: PLC0415

        torch.cuda.init()
        torch.manual_seed(len(entry["operator"]))
        self.entry, self.device = entry, Device()
        self.kernel = self.device.load((folder / f"{entry['name']}.cubin").read_bytes()).kernel(entry["entry"])
        self.memory = {side: self._placed(**entry["tensors"][side]) for side in "abc"}
        for side in "ab":
            element = self.memory[side][1]
            drawn = torch.randn(element.shape, device="cuda") if normal else self._whole(element.shape)
            element.copy_(drawn.to(element.dtype))
        self.poison()
        addresses = {name: self.memory[name[0]][1].data_ptr() for name in entry["parameters"]}
        maps = iter(entry["maps"])
        self.arguments = [
            self.device.encode(next(maps), address) if name.endswith("_map") else address
            for name, address in addresses.items()
        ]

    @staticmethod
    def _whole(shape: Any) -> Any:
        import torch  # noqa: PLC0415

        return torch.randint(-2, 3, tuple(shape), device="cuda").float()

    @staticmethod
    def _placed(dtype: str, shape: list[int], strides: list[int]) -> tuple[Any, Any]:
        """Return the bytes of an allocation, and the tensor that lies in them behind a guard."""
        import torch  # noqa: PLC0415

        kind = {
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
            "fp32": torch.float32,
            "e4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2,
            "i8": torch.int8,
            "i32": torch.int32,
        }[dtype]
        span = sum((n - 1) * d for n, d in zip(shape, strides, strict=True)) + 1
        size = torch.empty((), dtype=kind).element_size()
        span_bytes = -(-span * size // 16) * 16
        memory = torch.full((span_bytes + 2 * GUARD_BYTES,), UNTOUCHED, dtype=torch.uint8, device="cuda")
        return memory, torch.as_strided(memory.view(kind), shape, strides, GUARD_BYTES // size)

    def poison(self) -> None:
        """Make every byte of C one that no result has everywhere."""
        self.memory["c"][0].fill_(UNTOUCHED)

    def launch(self) -> None:
        """Compute C."""
        import torch  # noqa: PLC0415

        entry = self.entry
        self.kernel(
            *self.arguments,
            grid=(entry["grid"],),
            block=(entry["threads"],),
            shared=entry["shared"],
            stream=torch.cuda.current_stream().cuda_stream,
        )

    def check(self, launches: int = LAUNCHES) -> str:
        """Return what is wrong after so many launches, "" if nothing is."""
        import torch  # noqa: PLC0415

        a, b, c = (self.memory[side][1] for side in "abc")
        exact = a.double() @ b.double().T + 0.0  # an accumulator begins at 0: a sum of -0 alone is 0
        if c.dtype == torch.int8:  # C saturates, torch's conversion wraps around
            exact.clamp_(-128, 127)
        expected = self.memory["c"][0].clone()
        place = torch.as_strided(expected.view(c.dtype), c.shape, c.stride(), c.storage_offset())
        place.copy_(exact.to(c.dtype))
        for number in range(launches):
            self.poison()
            self.launch()
            torch.cuda.synchronize()
            wrong = (self.memory["c"][0] != expected).nonzero()
            if len(wrong):
                inside = (c.float() != exact.to(c.dtype).float()).nonzero()
                return (
                    f"launch {number}: {len(wrong)} bytes wrong, first {int(wrong[0]) - GUARD_BYTES} from C's start; "
                    f"{len(inside)} elements, first {inside[0].tolist() if len(inside) else '-'}"
                )
        return ""

    def rival(self) -> Any:
        """Return torch's way to compute the same, None where it has none."""
        import torch  # noqa: PLC0415

        a, b = (self.memory[side][1] for side in "ab")
        torch.backends.cuda.matmul.allow_tf32 = True
        if a.dtype == torch.int8:
            return lambda: torch._int_mm(a, b.T)
        if a.element_size() == 1:
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)
        # What LegalSAT relays first, torch gets as a user has it.
        a, b = (x.clone(memory_format=torch.contiguous_format) for x in (a, b))
        return lambda: a @ b.T


def rounds(ways: dict[str, Any]) -> dict[str, float]:
    """Return microseconds of a call of each way, medians of rounds in which they take turns."""
    import torch  # noqa: PLC0415

    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + ROUNDS):
        for name, way in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                way()
            end.record()
            torch.cuda.synchronize()
            if number >= WARM:
                samples[name].append(begin.elapsed_time(end) * 1000 / CALLS)
    return {name: sorted(us)[ROUNDS // 2] for name, us in samples.items()}


def in_processes(command: list[str], start: int, stop: int, seconds: int) -> dict[int, Any]:
    """Return what was found of entries from `start` up to `stop`, in as many processes as it takes.

    Args:
        command: what runs a process, without `start` and `stop`: it prints a line for each entry, as `child` does.
        start: the first entry's number.
        stop: the number behind the last one's.
        seconds: that a process may take.
    """
    results: dict[int, Any] = {}
    while start < stop:
        words = [sys.executable, "-m", *command, str(start), str(stop)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                out, err = process.communicate(timeout=seconds)
                why = f"process died: {err[-300:]}"
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                why = f"no answer within {seconds} s"
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"done"')]
        results.update({line["done"]: line["found"] for line in lines})
        if not lines or (lines[-1]["done"] < stop - 1 and not _failed(lines[-1]["found"])):
            results[start + len(lines)] = why
            start += 1
        start += len(lines)
    return results


def _failed(found: Any) -> bool:
    return isinstance(found, str) and bool(found)
