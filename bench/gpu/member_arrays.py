"""Operands of the cases of `bench.gpu.members` on the GPU: what C must hold, how kernels are checked, torch's ways."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from bench.gpu.member_cases import ROUTINGS, ends_of

GUARD = 512  # elements around C
UNTOUCHED = -77.0
ROTATING = 100 << 20  # bytes that a graph's calls go through at least
WHOLE = 16  # k, of which torch takes groups of operands that lie along it


class Arrays:
    """Operands of a case, as many sets of them as go beyond L2, and C with guards."""

    def __init__(self, case: dict[str, Any]) -> None:
        """Draw small whole numbers."""
        import torch  # noqa: PLC0415

        self.case, self.torch = case, torch
        m, n, k = (case[name] for name in "mnk")
        grouped, groups = case["kind"] != "bmm", case.get("groups", 0)
        if case["kind"] == "gradients":
            self.shapes: tuple[tuple[int, ...], ...] = ((m, k), (n, k), (groups, m, n))
        elif grouped:
            self.shapes = ((m, k), (groups, n, k), (m, n))
        else:
            batch = tuple(case["batch"])
            self.shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
        name = "e4m3" if case["kind"] == "scaled" else case.get("dtype", "bf16")
        kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i8": torch.int8, "u8": torch.uint8}
        kinds |= {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        self.kind, self.whole_numbers = kinds[name], name in {"i8", "u8"}
        small = torch.int32 if self.whole_numbers else torch.bfloat16
        self.result = small if self.kind.itemsize == 1 else self.kind
        self.clipped = case.get("majors") == "KK"
        torch.backends.cuda.matmul.allow_tf32 = name == "fp32"
        self.scales = [
            torch.exp2(torch.randint(-2, 3, shape, device="cuda").float())
            for shape in ([(m,), (groups, n)] if case["kind"] == "scaled" else [])
        ]
        size = sum(math.prod(shape) * kind.itemsize for shape, kind in zip(self.shapes, self._kinds, strict=True))
        self.sets = [self._drawn() for _ in range(max(1, min(8, -(-ROTATING // size))))]
        self.ends = [self.ends_by(case["routing"], 0)] if grouped else []

    @property
    def _kinds(self) -> tuple[Any, Any, Any]:
        return self.kind, self.kind, self.result

    def _drawn(self) -> tuple[Any, Any, Any]:
        a, b = (self._placed(self._numbers(shape), side) for side, shape in enumerate(self.shapes[:2]))
        count = math.prod(self.shapes[2]) + 2 * GUARD
        return a, b, self.torch.full((count,), UNTOUCHED, device="cuda", dtype=self.result)

    def _numbers(self, shape: tuple[int, ...]) -> Any:
        """Return whole numbers, small ones where sums of larger ones would be rounded."""
        torch = self.torch
        if self.whole_numbers:
            held = torch.iinfo(self.kind)
            return torch.randint(held.min, held.max + 1, shape, device="cuda", dtype=self.kind)
        return torch.randint(-3, 4, shape, device="cuda", dtype=torch.int8).to(self.kind)

    def _placed(self, numbers: Any, side: int) -> Any:
        """Return an operand as it lies: groups along k have lines across it, or along it in a pitch."""
        if self.case["kind"] != "gradients":
            return numbers
        if self.case.get("majors", "MM")[side] == "M":
            return numbers.t().contiguous().t()
        rows, k = numbers.shape
        memory = self.torch.empty(rows, self.case["pitch"], device="cuda", dtype=self.kind)
        memory.copy_(self.torch.full(memory.shape, 99 if self.whole_numbers else math.nan).to(self.kind))
        memory[:, :k].copy_(numbers)
        return memory[:, :k]

    def ends_by(self, routing: str, seed: int) -> Any:
        """Return where groups end by a routing."""
        rows = self.case["k" if self.case["kind"] == "gradients" else "m"]
        ends = ends_of(rows, self.case["groups"], routing, seed)
        return self.torch.tensor(ends, device="cuda", dtype=self.torch.int32)

    def place(self, memory: Any) -> Any:
        """Return C within its guards."""
        return memory[GUARD:-GUARD].view(self.shapes[2])

    def operands(self, one: tuple[Any, Any, Any], ends: Any = None) -> tuple[Any, ...]:
        """Return what our kernels are called with."""
        a, b, _ = one
        if self.case["kind"] == "gradients":
            return a, b, ends
        return (a, b.transpose(-1, -2)) if self.case["kind"] == "bmm" else (a, b, *self.scales, ends)

    def call(self, kernel: Any, one: tuple[Any, Any, Any]) -> None:
        """Compute a set's product."""
        kernel(*self.operands(one, *self.ends), out=self.place(one[2]))

    def meaning(self, ends: Any = None) -> Any:
        """Return C of the first set, sums in fp32, which holds them, rounded once."""
        torch, (a, b, _) = self.torch, self.sets[0]
        if ends is None:
            return torch.matmul(a.float(), b.float()).to(a.dtype)
        found, row = torch.full(self.shapes[2], UNTOUCHED, device="cuda", dtype=self.result), 0
        if self.case["kind"] == "gradients":
            exact = torch.float64 if self.whole_numbers else torch.float32
            for group, end in enumerate(ends.tolist()):
                last = max(row, min(end, a.shape[1]))
                own = slice(row, last)
                found[group] = torch.matmul(a[:, own].to(exact), b[:, own].to(exact).T).to(self.result)
                row = last
            return found
        for group, end in enumerate(ends.tolist()):
            last = max(row, min(end, len(a)))
            sums = torch.matmul(a[row:last].float(), b[group].float().T)
            if self.scales:
                sums *= self.scales[0][row:last, None] * self.scales[1][group]
            found[row:last] = sums.to(found.dtype)
            row = last
        return found

    def wrong(self, kernel: Any, seeds: int = 1) -> str:
        """Return what is wrong with what a kernel computes by so many routings of each kind; "" if nothing is."""
        torch, one = self.torch, self.sets[0]
        tried = [None]
        if self.ends:
            tried = [self.ends[0], *(self.ends_by(name, 7 + seed) for name in ROUTINGS for seed in range(seeds))]
            short = self.ends[0].clone()
            short[-1] = -5  # whose rows belong to nobody
            tried += [short, torch.full_like(short, 2**31 - 1), torch.zeros_like(short)]
        for number, ends in enumerate(tried):
            off = self._off(partial(kernel, *self.operands(one, ends), out=self.place(one[2])), ends)
            if off:
                return f"{off}, try {number}"
        return (self._off_in_a_graph(kernel) or self._off_beside_no_numbers(kernel)) if self.ends else ""

    def _off(self, launch: Callable[[], Any], ends: Any) -> str:
        """Return what is wrong in the memory of the first set's C after a launch; "" if nothing is."""
        torch, memory = self.torch, self.sets[0][2]
        memory.fill_(UNTOUCHED)
        launch()
        place, wanted = self.place(memory), self.meaning(ends)
        torch.cuda.synchronize()
        same = (place == wanted) | (place.isnan() & wanted.isnan())
        if not bool(same.all()):
            return f"{int((~same).sum())} of {place.numel()} elements are wrong"
        if not bool((memory[:GUARD] == UNTOUCHED).all() and (memory[-GUARD:] == UNTOUCHED).all()):
            return "bytes beside C are written"
        return ""

    def _off_in_a_graph(self, kernel: Any) -> str:
        """Return what is wrong where a captured launch is replayed with other sizes; "" if nothing is."""
        torch, one = self.torch, self.sets[0]
        ends, graph = self.ends[0].clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            kernel(*self.operands(one, ends), out=self.place(one[2]))
        for routing in ROUTINGS:
            ends.copy_(self.ends_by(routing, 8))
            off = self._off(graph.replay, ends)
            if off:
                return f"{off}, in a graph replayed with sizes {routing}"
        return ""

    def _off_beside_no_numbers(self, kernel: Any) -> str:
        """Return what is wrong where the largest group has no numbers, nor what is nobody's; "" if nothing is."""
        if self.whole_numbers:
            return ""
        along_k, (a, b, _) = self.case["kind"] == "gradients", self.sets[0]
        extent = a.shape[1] if along_k else len(a)
        ends = self.ends_by("zipf", 9).clamp(max=extent - extent // 5)
        begins = [0, *ends.tolist()]
        sizes = [end - begin for begin, end in itertools.pairwise(begins)]
        largest = sizes.index(max(sizes))
        own, others = slice(begins[largest], begins[largest + 1]), slice(begins[-1], extent)
        places = [a[:, own], b[:, own], a[:, others], b[:, others]] if along_k else [a[own], b[largest], a[others]]
        before = [place.clone() for place in places]
        for place, value in zip(places, (math.nan, math.inf) * 2, strict=False):
            place.copy_(self.torch.full(place.shape, value, device="cuda").to(self.kind))
        off = self._off(partial(kernel, *self.operands(self.sets[0], ends), out=self.place(self.sets[0][2])), ends)
        for place, numbers in zip(places, before, strict=True):
            place.copy_(numbers)
        return off and f"{off}, beside a group that has no numbers"

    def by_tiles(self, kernel: Any, rows: int) -> dict[str, list[Callable[[], None]]]:
        """Return a kernel's calls with groups of whole tiles of so many rows, and of as many that are not.

        Of groups along k that are clipped, with groups of whole granules, and with those that there are.
        """
        if self.clipped:
            return {
                name: [partial(kernel, *self.operands(one, own), out=self.place(one[2])) for one in self.sets]
                for name, own in (("aligned", self.whole_ends), ("ragged", self.ends[0]))
            }
        whole = (
            self.case["m"] // self.case["groups"] // rows * rows if self.case["kind"] in {"grouped", "scaled"} else 0
        )
        if not whole:
            return {}
        rng, ragged = random.Random(whole), [0]
        for _ in range(self.case["groups"]):
            ragged.append(ragged[-1] + whole - rng.randrange(1, min(rows, 32)))
        found = {"aligned": [whole * (i + 1) for i in range(self.case["groups"])], "ragged": ragged[1:]}
        ends = {name: self.torch.tensor(one, device="cuda", dtype=self.torch.int32) for name, one in found.items()}
        return {
            name: [partial(kernel, *self.operands(one, own), out=self.place(one[2])) for one in self.sets]
            for name, own in ends.items()
        }

    def rivals(self) -> dict[str, list[Callable[[], None]]]:
        """Return torch's ways."""
        torch, case = self.torch, self.case
        if case["kind"] != "bmm":
            narrow = self.kind == torch.float8_e4m3fn
            scales = self.scales
            if narrow and not scales:
                scales = [torch.ones(case["groups"] * case[name], device="cuda") for name in "mn"]
            given = [(a, b.mT, *scales) for a, b, _ in self.sets]
            more = {"out_dtype": torch.bfloat16, "use_fast_accum": True} if narrow else {}
            ends = self.whole_ends if self.clipped else self.ends[0]
            theirs = partial(torch._scaled_grouped_mm if narrow else torch._grouped_mm, offs=ends, **more)
            loops = dict[str, list[Callable[[], None]]]()
            if self.clipped:
                loops["loop"] = [partial(self._loop, one) for one in self.sets]
            if self.clipped and not narrow and self.kind != torch.bfloat16:
                return loops  # of other types torch has none, or asks the host for the ends
            try:
                theirs(*given[0])
            except RuntimeError:
                return loops
            return {"torch": [partial(theirs, *some) for some in given], **loops}
        whole = [-(-case[name] // 8) * 8 for name in "mnk"]
        batch = tuple(case["batch"])
        near = [
            (torch.randn(*batch, whole[0], whole[2], device="cuda").bfloat16(),
             torch.randn(*batch, whole[2], whole[1], device="cuda").bfloat16())
            for _ in self.sets
        ]  # fmt: skip
        return {
            "torch": [lambda a=a, b=b: torch.matmul(a, b) for a, b, _ in self.sets],  # type: ignore[misc]
            "nearest": [lambda a=a, b=b: torch.matmul(a, b) for a, b in near],  # type: ignore[misc]
        }

    @property
    def whole_ends(self) -> Any:
        """Ends of groups along k as torch takes them: whole granules."""
        return self.ends[0] // WHOLE * WHOLE

    def _loop(self, one: tuple[Any, Any, Any]) -> None:
        """Compute products of groups along k one after the other, of whole granules where torch takes no others."""
        a, b, memory = one
        place, begin = self.place(memory), 0
        for group, end in enumerate(self._host_ends):
            if begin == end:
                place[group].zero_()
            else:
                self._product(a[:, begin:end], b[:, begin:end], place[group])
            begin = end

    @cached_property
    def _host_ends(self) -> list[int]:
        found: list[int] = (self.whole_ends if self.kind.itemsize == 1 else self.ends[0]).tolist()
        return found

    def _product(self, a: Any, b: Any, place: Any) -> None:
        torch = self.torch
        if self.whole_numbers:
            torch._int_mm(a, b.T, out=place)
        elif self.kind.itemsize == 1:
            one = self._one
            torch._scaled_mm(a, b.T, one, one, out_dtype=self.result, use_fast_accum=True, out=place)
        else:
            torch.mm(a, b.T, out=place)

    @cached_property
    def _one(self) -> Any:
        return self.torch.ones((), device="cuda")

    def bound_us(self) -> float:
        """Return the time in which everything moves once at 4.5 TB/s."""
        m, n, k = (self.case[name] for name in "mnk")
        if self.case["kind"] == "bmm":
            return float(2 * sum(math.prod(shape) for shape in self.shapes) / 4.5e6)
        if self.case["kind"] == "gradients":
            moved = k * (m + n) * self.kind.itemsize + self.case["groups"] * m * n * self.result.itemsize
            return float(moved / 4.5e6)
        ends = self.ends[0].tolist()
        used = sum(last > first for first, last in zip([0, *ends], ends, strict=False))
        return float((self.kind.itemsize * (m * k + used * n * k) + 2 * m * n) / 4.5e6)

    def dense(self) -> list[Callable[[], None]]:
        """Return the product of as many rows by one matrix, or of all tokens together."""
        torch = self.torch
        if self.case["kind"] == "gradients":
            whole = torch.empty(self.shapes[2][1:], device="cuda", dtype=self.result)
            return [partial(self._product, a, b, whole) for a, b, _ in self.sets]
        if self.scales:
            one, kind = torch.ones((), device="cuda"), torch.bfloat16
            options = {"scale_a": one, "scale_b": one, "out_dtype": kind, "use_fast_accum": True}
            return [partial(torch._scaled_mm, a, b[0].T, **options) for a, b, _ in self.sets]
        return [lambda a=a, b=b: torch.matmul(a, b[0].T) for a, b, _ in self.sets]  # type: ignore[misc]
