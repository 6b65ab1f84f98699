"""`bench.gpu.search`: which kernels a search takes, what that loses, and a process that kernels may take along."""

from __future__ import annotations

import gzip
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import search
from bench.gpu.gemm import KINDS
from legalsat.errors import LegalSatError
from legalsat.runtime import choice

SILENT = 1.5


def row(quick: list[float], final: dict[int, float], failed: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a row of kernels in the model's order, without quick times of those that failed."""
    return {
        "shape": "8x8x8 NT bf16",
        "kernels": {str(i): f"kernel {i}" for i in range(len(quick))},
        "quick_us": {str(i): us for i, us in enumerate(quick) if i not in failed},
        "final_us": {str(i): us for i, us in final.items()},
        "failed": {str(i): "off by 1" for i in failed},
    }


def test_a_search_is_the_library_s() -> None:
    assert search.MEASURED[-1] == choice.MOST
    assert search.RETIMED == choice.FINALISTS


def test_products_are_drawn_from_the_lists_and_none_twice() -> None:
    found = search.drawn()
    assert found == search.drawn()
    assert len(set(found)) == 20
    assert {kind: sum(one == kind for one, _ in found) for kind in KINDS} == {"legal": 10, "narrow": 2, "illegal": 8}
    assert all(shape in KINDS[kind]() for kind, shape in found)


def test_a_search_loses_what_lies_behind_its_last_kernel() -> None:
    """Number 16, the 17th, takes 8 us; of the first 16, number 5 takes 10, of the first 4, number 2 takes 20."""
    quick = [100.0] * 20
    quick[0], quick[2], quick[5], quick[16] = 40.0, 20.0, 10.0, 8.0
    one = row(quick, {0: 40.0, 2: 20.0, 5: 10.0, 16: 8.0, **dict.fromkeys((1, 3), 100.0)})
    assert search.best(one) == "16"
    assert [search.share(one, most) for most in (1, 4, 8, 16, 17)] == [8 / 40, 8 / 20, 8 / 10, 8 / 10, 1]


def test_a_search_takes_the_best_of_three_by_their_final_times() -> None:
    """Number 3 is the best in the end, but fourth in the quick round: no search of four kernels finds it."""
    one = row([10.0, 11.0, 12.0, 13.0], {0: 10.5, 1: 10.0, 2: 11.0, 3: 9.0})
    assert search.first(one["quick_us"], 4) == ["0", "1", "2"]
    assert search.share(one, 4) == 9.0 / 10.0


def test_kernels_that_failed_are_not_taken() -> None:
    one = row([0.0, 9.0, 6.0], {1: 9.0, 2: 6.0}, failed=(0,))
    assert search.share(one, 1) == 0
    assert search.share(one, 2) == 6 / 9
    assert search.best(row([1.0], {}, failed=(0,))) == ""


def test_finalists_hold_what_every_search_may_take() -> None:
    quick = {str(i): 100.0 - i for i in range(40)}  # the model's order is the reverse of the truth
    found = search.finalists(quick)
    assert found[:6] == ["39", "38", "37", "36", "35", "34"]
    assert set(found[6:]) == {"0", "3", "2", "1", "7", "6", "5", "15", "14", "13"}
    assert len(set(found)) == len(found)


def test_judge_prints_means_failures_and_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shares of 1/4 and 1 have the geometric mean 1/2."""
    slow, good = row([40.0, 10.0], {0: 40.0, 1: 10.0}), row([10.0, 40.0, 0.0], {0: 10.0, 1: 40.0}, failed=(2,))
    left_out = [{"shape": "9x9x9 NT bf16", "kernels": 7, "why": "no time was left"}]
    (tmp_path / "search.json").write_text(json.dumps({"rows": [slow, good], "left_out": left_out}))
    search.judge(tmp_path / "search.json")
    said = capsys.readouterr().out
    assert "2 products, 1 left out; 4 of 5 kernels timed" in said
    assert "first  1: 0.5000 of the best's speed, 0.2500 at least" in said
    assert "first 16: 1.0000 of the best's speed, 1.0000 at least" in said
    assert "kernel 2: off by 1" in said
    assert "LEFT OUT: no time was left" in said


class FakeProduct:
    """A product whose kernel "wrong" is off by 1, and whose kernel "refused" the driver refuses."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def exact(self) -> None: ...

    def ours(self, steps: Any, load: Any) -> list[Any]:
        return [partial(load, steps)]

    def error(self, call: Any, exact: None) -> float:
        del exact
        name = call()
        if name == "refused":
            raise LegalSatError("too much shared memory")
        return 1.0 if name == "wrong" else 0.0


def test_kernels_are_checked_and_slow_ones_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[tuple[int, list[str]]] = []

    def microseconds(ways: dict[str, Any], number: int) -> dict[str, float]:
        rounds.append((number, list(ways)))
        return {name: float(ways[name][0]()) for name in ways}

    monkeypatch.setattr(search, "Product", FakeProduct)
    monkeypatch.setattr(search, "microseconds", microseconds)
    kernels = ["10", "wrong", "31", "refused", "30", "hangs"]
    entry = {"shape": search.drawn()[0][1].plain(), "candidates": [{"steps": one} for one in kernels]}
    tried: list[str] = []
    found = search.measure(entry, lambda steps: steps, {"5": "silent"}, tried.append)
    assert tried == ["0", "1", "2", "3", "4", ""]
    assert rounds[0] == (1, ["0", "2", "4"])
    assert rounds[1] == (search.QUICK, ["0", "4"])  # 31 is more than three times 10
    assert found["quick_us"] == {"0": 10, "2": 31, "4": 30}
    assert set(found["failed"]) == {"1", "3"}
    assert found["failed"]["3"] == "too much shared memory"


def work(pipe: Any) -> None:
    """Stand for a process that times: kernel 1 of product 0 hangs, kernel 2 ends it, and product 1 is never done."""
    pipe.send(("ready", {"gpu": "none"}))
    while True:
        try:
            number, failed = pipe.recv()
        except EOFError:
            return
        if number == 1:
            pipe.send(("failed", "out of memory"))
            return
        for kernel in range(4):
            if str(kernel) not in failed:
                pipe.send(("trying", str(kernel)))
                if kernel == 1:
                    time.sleep(60)
                if kernel == 2:
                    os._exit(3)
        pipe.send(("trying", ""))
        one = row([5.0, 0.0, 0.0, 4.0], {0: 5.0, 3: 4.0}, failed=(1, 2))
        pipe.send(("row", {name: one[name] for name in ("quick_us", "final_us")} | {"failed": {}}))


def work_in(folder: Path, measured: Any, pipe: Any) -> None:
    assert folder.is_dir()
    assert measured is search.measure
    work(pipe)


def test_a_kernel_that_hangs_or_ends_the_process_is_told() -> None:
    watched, failed = search.Watched(work, SILENT), dict[str, str]()
    found = watched.row(0, failed, time.monotonic() + 60)
    assert isinstance(found, dict)
    assert found["final_us"] == {"0": 5, "3": 4}
    assert failed == {"1": "silent for 2 s", "2": "the process ended with status 3"}
    assert watched.machine == {"gpu": "none"}
    assert watched.row(0, failed, 0) == "no time was left"
    watched.end()


def test_a_run_reports_products_that_it_leaves_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "work", work_in)
    monkeypatch.setattr(search, "compile_all", lambda *_: {"b": "nvcc refuses the text"})
    monkeypatch.setattr("legalsat.backends.cute.compile.nvcc_version", lambda: "nvcc of a test")
    monkeypatch.delenv("OUT", raising=False)
    (tmp_path / "a.cubin").write_bytes(b"")
    shapes = [shape.plain() for _, shape in search.drawn()[:3]]
    texts = (["a", "b", "b", "a"], ["a"], ["a", "missing"])  # of each product's kernels; both with b are refused
    products = [
        {
            "kind": "legal",
            "shape": shape,
            "candidates": [{"kernel": name, "steps": [{"cubin": name}], "predicted_us": 1.0} for name in names],
        }
        for shape, names in zip(shapes, texts, strict=True)
    ]
    with gzip.open(tmp_path / "search.json.gz", "wt") as file:
        json.dump({"products": products, "texts": {}}, file)
    assert search.run(tmp_path, 60) == 1
    report = json.loads((tmp_path / "search.json").read_text())
    assert report["machine"] == {"gpu": "none", "nvcc": "nvcc of a test"}
    (done,) = report["rows"]
    assert set(done["failed"]) == {"1", "2"}
    assert search.share(done, 1) == 4 / 5
    assert [(one["m"], one["kernels"]) for one in report["left_out"]] == [(shapes[1]["m"], 1), (shapes[2]["m"], 2)]
    first, second = (one["why"] for one in report["left_out"])
    assert "out of memory" in first
    assert "not all of its kernels were compiled" in second
