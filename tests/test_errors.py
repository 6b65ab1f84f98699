"""Errors and a library's manners: what is raised survives copying and processes, and nobody's log fills."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import legalsat as ls
from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError

WHY = Diagnostic("TMA005", "error", "driver", "global_stride", "stride 1 is 2 bytes", "cuda.h", "pad it")
# What those with an __init__ of their own take; all others take a message.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "NoLegalLayout": ("nothing is legal", (WHY,)),
    "DriverError": ("cuLaunchKernel", 716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
}


def modules() -> Iterator[Any]:
    for package in ("legalsat", *(f"legalsat.{name}" for name in ("rules", "analyses", "extract", "backends"))):
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not module.name.endswith("__main__") and "_text" not in module.name and ".torch" not in module.name:
                yield importlib.import_module(module.name)


def errors() -> list[type[LegalSatError]]:
    for _ in modules():
        pass
    found, rest = [LegalSatError], [LegalSatError]
    while rest:
        for kind in rest.pop().__subclasses__():
            if kind not in found:
                found.append(kind)
                rest.append(kind)
    return found


def same(one: BaseException, other: BaseException) -> bool:
    return type(one) is type(other) and str(one) == str(other) and one.args == other.args and vars(one) == vars(other)


def test_every_error_can_be_copied_and_pickled() -> None:
    kinds = errors()
    assert len(kinds) > 15 and {kind.__name__ for kind in kinds} >= set(ARGUMENTS)
    for kind in kinds:
        error = kind(*ARGUMENTS.get(kind.__name__, ("it says what and what to do",)))
        error.add_note("while a model was planned")
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert same(pickle.loads(pickle.dumps(error, protocol)), error), kind
        assert same(copy.copy(error), error) and same(copy.deepcopy(error), error), kind


def _refused(_: int) -> None:
    ls.synthesize(ls.Gemm(64, 64, 64, "fp64"), "h200")


def test_a_refusal_reaches_who_waits_for_a_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(ls.NoLegalLayout) as caught:
        pool.submit(_refused, 0).result()
    with pytest.raises(ls.NoLegalLayout) as here:
        _refused(0)
    assert same(caught.value, here.value) and caught.value.diagnostics


@pytest.mark.parametrize("told", ["", "logging.getLogger('egglog').setLevel(logging.INFO)"])
def test_a_log_at_info_holds_nothing_of_the_e_graph_unless_asked(told: str) -> None:
    code = f"import logging; logging.basicConfig(level=logging.INFO); {told}\nimport legalsat as ls\n"
    code += "ls.synthesize(ls.Tensor((64, 64), 'bf16'), 'h200')\nlogging.getLogger('mine').info('kept')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stderr.splitlines()
    assert lines[-1] == "INFO:mine:kept" and (len(lines) > 1) == bool(told)
