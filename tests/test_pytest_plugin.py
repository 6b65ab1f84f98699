"""The plug-in of pytest: what Triton compiles during a test run is checked, if that is asked for."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from legalsat.backends.ptx.disassemble import disassemble
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.check.check_sass import check_sass
from legalsat.pytest_plugin import judged

triton = pytest.importorskip("triton")
pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]
PTX = ROOT / "tests" / "data" / "ptx" / "gluon_add_in_a_ring_sm_90.ptx"
# Compiles one box in and one box out with Gluon, with or without a wait for the box between them.
COMPILES = """
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

load, store = (
    (tma.async_load, tma.async_store) if hasattr(tma, "async_load")
    else (tma.async_copy_global_to_shared, tma.async_copy_shared_to_global)  # names before Triton 3.9
)

@gluon.jit
def copy(source, target, WAITS: gl.constexpr):
    held = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    mbarrier.expect(arrived, source.block_type.nbytes)
    load(source, [0, 0], arrived, held)
    if WAITS:
        mbarrier.wait(arrived, 0)
    store(target, [0, 0], held)
    tma.store_wait(0)
    if not WAITS:
        mbarrier.wait(arrived, 0)
    mbarrier.invalidate(arrived)

def build(waits):
    box = f"tensordesc<bf16[64, 64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    types = {"source": box, "target": box, "WAITS": "constexpr"}
    triton.compile(GluonASTSource(copy, types, {(2,): waits}, {}), target=GPUTarget("cuda", 90, 32))

"""
# Tells of a compilation as Triton does, which takes no time.
TELLS = """
import triton

def build(path):
    triton.knobs.compilation.listener(
        src=None, metadata={{}}, metadata_group={{"k.ptx": path, "k.json": path}}, times=None, cache_hit=True
    )

RIGHT, WRONG = {right!r}, {wrong!r}
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Load no installed plug-in, so that this one is not loaded twice, and find nothing compiled."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


def run(pytester: pytest.Pytester, *words: str, apart: bool = False) -> pytest.RunResult:
    """Run the tests that were written, in this process, which has imported Triton, or in one of their own."""
    start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
    return start("-p", "legalsat.pytest_plugin", "-p", "no:cacheprovider", *words)


@cache
def texts() -> tuple[str, str]:
    """Return a text that is right, and one that lacks the fence before a store."""
    right = PTX.read_text()
    wrong = right.replace("fence.proxy.async.shared::cta;", "")
    assert check_ptx(right).proven and check_ptx(wrong).findings
    return right, wrong


def told(pytester: pytest.Pytester, tests: str) -> None:
    """Write a file of tests with two texts, of which one is wrong."""
    wrong = pytester.path / "wrong.ptx"
    wrong.write_text(texts()[1])
    pytester.makepyfile(TELLS.format(right=str(PTX), wrong=str(wrong)) + tests)


def test_a_test_that_compiles_a_break_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(COMPILES + "def test_right():\n    build(True)\n\ndef test_wrong():\n    build(False)\n")
    found = run(pytester, "--legalsat-check", apart=True)
    found.assert_outcomes(passed=1, failed=1)
    lines = ["*copy.ptx breaks the asynchronous contract:", "*PIPE*", "*--> */copy.ptx", "*2 kernels, * 1 breaks"]
    found.stdout.fnmatch_lines(lines)
    again = run(pytester, "--legalsat-check", apart=True)  # out of Triton's cache
    again.assert_outcomes(passed=1, failed=1)
    assert re.search(r"copy\.ptx: PIPE\d+: .* \[\S+::test_wrong\]", found.stdout.str())
    run(pytester, apart=True).assert_outcomes(passed=2)


def test_breaks_are_summed_up_instead_if_asked(pytester: pytest.Pytester) -> None:
    told(pytester, "def test_one():\n    build(WRONG)\n\ndef test_two():\n    build(WRONG)\n    build(RIGHT)\n")
    found = run(pytester, "--legalsat-summary")
    found.assert_outcomes(passed=2)
    found.stdout.fnmatch_lines(["*3 kernels, 1 proven, 0 not proven, 2 breaks"])
    assert re.search(r"k\.ptx: PIPE010.*test_one, \S+test_two\]", found.stdout.str())
    run(pytester, "--legalsat-summary", "--legalsat-check").assert_outcomes(passed=2)


def test_fixtures_and_modules_are_listened_to(pytester: pytest.Pytester) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef kernel():\n    build(WRONG)\n\n"
    told(pytester, fixture + "def test_a(kernel):\n    pass\n\ndef test_b():\n    pass\n")
    run(pytester, "--legalsat-check").assert_outcomes(errors=1, passed=1)
    told(pytester, "build(WRONG)\n\ndef test_a():\n    pass\n\ndef test_b():\n    pass\n")
    run(pytester, "--legalsat-check").assert_outcomes(errors=1, passed=1)
    behind = "@pytest.fixture\ndef late():\n    yield\n    build(WRONG)\n\ndef test_a(late):\n    pass\n"
    told(pytester, "import pytest\n\n" + behind)
    found = run(pytester, "--legalsat-check")
    found.assert_outcomes(passed=1)
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["*outside tests*"])


def test_a_test_that_fails_by_itself_says_both(pytester: pytest.Pytester) -> None:
    told(pytester, "def test_a():\n    build(WRONG)\n    assert 1 == 2\n")
    found = run(pytester, "--legalsat-check")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*assert 1 == 2*", "*breaks the asynchronous contract*"])


def test_other_listeners_hear_too(pytester: pytest.Pytester) -> None:
    mine = "import triton\nheard = []\ntriton.knobs.compilation.listener = lambda **more: heard.append(more)\n"
    pytester.makeconftest(mine)
    told(pytester, "def test_a():\n    from conftest import heard\n    build(RIGHT)\n    assert len(heard) == 1\n")
    found = run(pytester, "--legalsat-check")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*1 kernels, 1 proven*"])


def test_triton_tells_nobody_afterwards(pytester: pytest.Pytester) -> None:
    before = triton.knobs.compilation.listener
    told(pytester, "def test_a():\n    build(RIGHT)\n")
    run(pytester, "--legalsat-check").assert_outcomes(passed=1)
    assert triton.knobs.compilation.listener is before


def test_what_cannot_be_checked_is_the_tests_no_fault(pytester: pytest.Pytester) -> None:
    told(pytester, "def test_a():\n    build(__file__)\n    build('nowhere.ptx')\n")
    found = run(pytester, "--legalsat-check")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*1 kernels, 0 proven, 1 not proven, 0 breaks"])


@pytest.mark.parametrize("words", [(), ("--legalsat-check",)])
def test_triton_is_imported_by_nobody_else(words: tuple[str, ...], pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n\ndef test_a():\n    loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "    assert not loaded & {'triton', 'z3', 'egglog'}\n"
        "    assert not any(name.startswith('legalsat.extract') for name in sys.modules)\n"
    )
    found = run(pytester, *words, apart=True)
    found.assert_outcomes(passed=1)
    assert ("Triton compiled nothing" in found.stdout.str()) is bool(words)


def test_workers_hand_their_breaks_on(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    told(pytester, "def test_a():\n    build(WRONG)\n\ndef test_b():\n    build(RIGHT)\n")
    found = run(pytester, "-p", "xdist", "-n", "2", "--legalsat-check", apart=True)
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(["*2 kernels, 1 proven, 0 not proven, 1 breaks"])


def test_cubins_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(
        f"/*{16 * n:04x}*/ {one} ;" for n, one in enumerate(("HGMMA.64x8x16.F16 R24, gdesc[UR4], RZ", "EXIT"))
    )
    kinds = {finding.kind for finding in check_sass(code).findings}
    assert kinds == {"sums_not_fenced", "not_drained"}
    monkeypatch.setattr("legalsat.backends.ptx.disassemble.disassembler", lambda: "nvdisasm")
    monkeypatch.setattr("legalsat.backends.ptx.disassemble.disassemble", lambda _: code)
    assert len(judged("k.cubin", b"").breaks) == 2 and judged("k.cubin", b"").proven is None
    monkeypatch.setattr("legalsat.backends.ptx.disassemble.disassemble", disassemble)
    assert judged("k.cubin", b"no cubin").breaks == ()


def test_the_plug_in_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert import_module(module) is sys.modules["legalsat.pytest_plugin"]
