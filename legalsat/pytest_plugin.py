"""A plug-in of pytest, `--legalsat-check`: what Triton compiles during a test run is checked as `legalsat check` does.

A test in which a kernel is compiled that breaks the asynchronous contract fails; with `--legalsat-summary` breaks are
summed up at the end instead. Nothing happens without either option. Triton is not imported for it: the plug-in waits
until somebody does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from legalsat.analyses.ptx.findings import Finding

_KNOBS = "triton.knobs"
_PROPERTY = "legalsat"
_MOST_TOLD = 8  # breaks of one kernel that are spelled out
_COUNTED = ("kernels", "proven", "not_proven", "breaks")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("legalsat", "checks of compiled kernels")
    group.addoption(
        "--legalsat-check",
        action="store_true",
        help="check what Triton compiles; a test fails that compiles a kernel which breaks the asynchronous contract",
    )
    group.addoption(
        "--legalsat-summary",
        action="store_true",
        help="check what Triton compiles, and sum breaks up at the end instead of failing tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to listen, if asked."""
    fails, sums_up = config.getoption("--legalsat-check"), config.getoption("--legalsat-summary")
    if fails or sums_up:
        config.pluginmanager.register(Checker(fails=bool(fails) and not sums_up), "legalsat-checker")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one text: its name, whether it is proven (None for machine code), breaks in words, its file."""

    name: str
    proven: bool | None
    breaks: tuple[str, ...]
    path: str = ""


@dataclass
class Checker:
    """Listens to Triton, and hands what was found to the test that runs.

    Attributes:
        fails: whether a test fails for breaks.
        fresh: verdicts on what was compiled since they were last handed on.
    """

    fails: bool
    fresh: list[Verdict] = field(default_factory=list)
    _known: dict[str, Verdict] = field(default_factory=dict)
    _finder: _WhenImported | None = None
    _leave: Callable[[], None] | None = None

    def pytest_sessionstart(self) -> None:
        """Listen to Triton now, or as soon as it is imported."""
        if _KNOBS in sys.modules:
            self.listen(sys.modules[_KNOBS])
        else:
            self._finder = _WhenImported(_KNOBS, self.listen)
            sys.meta_path.insert(0, self._finder)

    def pytest_unconfigure(self) -> None:
        """Listen no longer."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self._leave is not None:
            self._leave()

    def listen(self, knobs: ModuleType) -> None:
        """Have Triton tell of each compilation, besides whoever it tells already."""
        compilation: Any = knobs.__dict__["compilation"]
        before = getattr(compilation, "listener", None)

        def told(**compiled: Any) -> None:
            if before is not None:
                before(**compiled)
            self.take(compiled.get("metadata_group") or {})

        def leave() -> None:
            if compilation.listener is told:
                compilation.listener = before

        compilation.listener, self._leave = told, leave

    def take(self, files: dict[str, str]) -> None:
        """Check the files of one compilation, as far as they are PTX or cubins."""
        for name, path in sorted(files.items()):
            if name.endswith((".ptx", ".cubin")) and Path(path).is_file():
                data = Path(path).read_bytes()
                key = hashlib.sha256(data).hexdigest()
                if key not in self._known:
                    self._known[key] = judged(name, data)
                self.fresh.append(replace(self._known[key], path=path))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hand on what fixtures compile."""
        result = yield
        self._hand_on(item)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hand on what the test compiles."""
        try:
            result = yield
        except BaseException:
            self._hand_on(item, failed=True)
            raise
        self._hand_on(item)
        return result

    def _hand_on(self, item: pytest.Item, *, failed: bool = False) -> None:
        """Note what was compiled on the test, and fail it for breaks."""
        verdicts, self.fresh = self.fresh, []
        if not verdicts:
            return
        item.user_properties.append((_PROPERTY, json.dumps(_counted(verdicts))))
        broken = [told for verdict in verdicts if (told := _told(verdict))]
        if not broken:
            return
        said = "\n\n".join(broken)
        if failed or not self.fails:
            item.add_report_section("call", "legalsat", said)
        else:
            pytest.fail(said, pytrace=False)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail for what was compiled behind the last test."""
        if self.fails and any(one.breaks for one in self.fresh) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Sum up what was checked."""
        counts = dict.fromkeys(_COUNTED, 0)
        broken: dict[str, list[str]] = {}
        for report in (one for reports in terminalreporter.stats.values() for one in reports):
            if getattr(report, "when", None) != "teardown":
                continue  # the last report of a test has the notes of all
            for name, noted in report.user_properties:
                if name == _PROPERTY:
                    _add(counts, broken, json.loads(noted), report.nodeid)
        if self.fresh:
            _add(counts, broken, _counted(self.fresh), "outside tests")
        told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
        terminalreporter.section("legalsat")
        terminalreporter.line(told if counts["kernels"] else "Triton compiled nothing")
        for line, places in broken.items():
            terminalreporter.line(f"{line} [{', '.join(dict.fromkeys(places))}]")


class _WhenImported(MetaPathFinder):
    """Calls back once a module has been imported, whoever imports it."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name, self.then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as it would be found otherwise, with a call behind its execution."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                execute(module)
                self.then(module)

            spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


def judged(name: str, data: bytes) -> Verdict:
    """Check one file that Triton wrote."""
    from legalsat.backends.ptx.disassemble import disassemble, disassembler  # noqa: PLC0415 - only if there are kernels
    from legalsat.extract.check.check_ptx import check_ptx  # noqa: PLC0415
    from legalsat.extract.check.check_sass import check_sass  # noqa: PLC0415
    from legalsat.extract.check.check_words import code_of, place_of  # noqa: PLC0415

    try:
        if name.endswith(".ptx"):
            ptx = check_ptx(data.decode())
            findings, proven = ptx.findings, ptx.proven
        elif disassembler() is None:
            return Verdict(name, None, ())
        else:
            findings, proven = check_sass(disassemble(data)).findings, None
    except Exception:  # a text that the check does not know, or a fault of the check: neither is the test's
        return Verdict(name, False if name.endswith(".ptx") else None, ())
    return Verdict(name, proven, tuple(f"{code_of(f)}: {f.message} ({place_of(f)})" + _noted(f) for f in findings))


def _noted(finding: Finding) -> str:
    return f"; {finding.note}" if finding.note else ""


def _counted(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return how many kernels were checked, and what is broken, as plain values."""
    texts = [one for one in verdicts if one.proven is not None]
    return {
        "kernels": len(texts),
        "proven": sum(one.proven is True for one in texts),
        "not_proven": sum(not one.proven and not one.breaks for one in texts),
        "breaks": sum(bool(one.breaks) for one in texts),
        "broken": {f"{one.name}: {line}": None for one in verdicts for line in one.breaks[:1]},
    }


def _add(counts: dict[str, int], broken: dict[str, list[str]], noted: dict[str, Any], place: str) -> None:
    for name in counts:
        counts[name] += noted[name]
    for line in noted["broken"]:
        broken.setdefault(line, []).append(place)


def _told(verdict: Verdict) -> str:
    """Return the breaks of one file in words, "" for none."""
    if not verdict.breaks:
        return ""
    more = len(verdict.breaks) - _MOST_TOLD
    lines = [*verdict.breaks[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])]
    place = [f"--> {verdict.path}"] if verdict.path else []
    return "\n  ".join([f"{verdict.name} breaks the asynchronous contract:", *lines, *place])
