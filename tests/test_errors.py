"""A library's manners: errors survive copying and processes, nobody's log fills, and little is loaded unasked."""

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
PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n ret;\n}\n"
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


def loaded(code: str, missing: str = "") -> tuple[set[str], str]:
    """Return the modules that a fresh interpreter loads for `code`, and what it printed; some are not installed."""
    block = (
        f"import os, sys; os.environ['LEGALSAT_CACHE'] = ''; sys.modules.update(dict.fromkeys({missing.split()!r}))\n"
    )
    code = f"{block}was = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - was))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    *said, names = done.stdout.splitlines()
    return set(names.split()), "\n".join(said)


def test_importing_the_package_loads_next_to_nothing() -> None:
    """Counted, not timed: under 50 ms is some dozen modules of the standard library, and none of those below."""
    names, _ = loaded("import legalsat; legalsat.__version__; dir(legalsat)")
    assert {name for name in names if name.startswith("legalsat")} == {"legalsat"}
    assert len(names) <= 24 and not names & {"numpy", "egglog", "islpy", "z3", "triton", "asyncio", "subprocess"}


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("ls.Layout('(4,8):(8,1)')", "egglog z3 islpy triton pyarrow"),
        ("ls.explain(ls.TensorMap('bf16', (64, 64), (128,), (64, 8)), 'h200')", "z3 triton pyarrow torch"),
        ("ls.synthesize(ls.Tensor((4096, 4096), 'bf16'), 'h200').emit('triton')", "z3 triton pyarrow torch"),
        ("ls.synthesize(ls.Gemm(512, 512, 512, 'bf16'), 'h200').emit('cute')", "z3 triton pyarrow torch"),
        ("ls.explain(ls.Tensor((64, ls.Dim('K', max=512)), 'bf16'), 'h200')", "z3 triton pyarrow torch"),
        (f"ls.check_pipeline({PTX!r}, 'sm_90a')", "z3 triton pyarrow torch"),
    ],
)
def test_what_few_need_is_loaded_for_them_alone(code: str, unneeded: str) -> None:
    names, _ = loaded(f"import legalsat as ls; {code}", unneeded)
    assert not names & set(unneeded.split())


@pytest.mark.parametrize(
    ("code", "missing", "extra"),
    [
        ("ls.synthesize(ls.Tensor((64, 64), 'bf16'), 'h200', means=('tma',)).compile('triton')", "triton", "triton"),
        ("ls.synthesize(ls.Gemm(64, 64, 64, 'bf16'), 'h200', backend='triton').compile('triton')", "triton", "triton"),
        ("ls.sweep([{'m': 64, 'n': 64, 'k': 64}], 'h200')", "pyarrow", "sweep"),
        ("ls.sweep([{'m': 64, 'n': 64, 'k': 64}], 'h200', ray=True)", "ray", "ray"),
    ],
)
def test_what_is_missing_is_named_with_its_extra(code: str, missing: str, extra: str) -> None:
    tried = f"import legalsat as ls\ntry: {code}\nexcept ls.MissingExtra as error: print(error)"
    _, said = loaded(f"{tried}\nsys.modules.pop('importlib.metadata', None)", missing)
    assert f"{missing} is missing" in said and f"install legalsat[{extra}]" in said
