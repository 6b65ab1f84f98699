"""What the check of kernels found, as a page for a terminal: causes first, then what is open, then a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from legalsat.analyses.ptx.findings import Finding
from legalsat.cli.check_files import Checked
from legalsat.extract.check.check_ptx import KernelCheck
from legalsat.extract.check.check_sass import SassKernelCheck
from legalsat.extract.check.check_words import assumptions_of, code_of
from legalsat.extract.check.ptx_names import by_reason, lines_told, told
from legalsat.view.look import Look

_MOST_VALUES = 12  # of a parameter, told one by one


def counts_of(checked: Iterable[Checked]) -> dict[str, int]:
    """Return how many kernels have breaks, are proven or not, and as machine code are judged without a break or not."""
    counted = Counter(_class(kernel) for one in checked if one.found is not None for kernel in one.found.kernels)
    return {name: counted[name] for name in ("breaks", "proven", "not_proven", "judged", "not_judged")}


def _class(kernel: KernelCheck | SassKernelCheck) -> str:
    if kernel.findings:
        return "breaks"
    if isinstance(kernel, SassKernelCheck):
        return "judged" if kernel.known else "not_judged"
    return "proven" if kernel.proven else "not_proven"


def page(checked: Sequence[Checked], look: Look, *, detailed: bool) -> str:
    """Return a page about files.

    Args:
        checked: what came of them.
        look: columns and colours.
        detailed: whether verdicts tell what they rest on: values that were tried, what was covered.
    """
    blocks = []
    for one in checked:
        if one.found is None:
            blocks.append(look.wrap(one.error, f"{look.paint('not checked', 'warning')}: ") + f"\n  --> {one.name}")
        else:
            blocks += [_kernel(kernel, one.name, look, detailed) for kernel in one.found.kernels]
    if len(checked) > 1:
        failed = sum(one.found is None for one in checked)
        counts = {name.replace("_", " "): count for name, count in counts_of(checked).items() if count}
        counts |= {"not checked": failed} if failed else {}
        said = "; ".join(f"{name}: {count}" for name, count in counts.items())
        blocks.append(look.wrap(f"{_count(len({one.name for one in checked}), 'file')}: {said}"))
    return "\n\n".join(blocks)


def _kernel(kernel: KernelCheck | SassKernelCheck, path: str, look: Look, detailed: bool) -> str:
    """Return the findings about a kernel, what is open, and the verdict."""
    if isinstance(kernel, SassKernelCheck):
        blocks = [_finding(f, path, look) for f in kernel.findings]
        open_ = by_reason((u.line, u.reason) for u in kernel.unjudged)
        head, notes = _machine_code(kernel, look), list[str]()
    else:
        blocks = [_finding(f, path, look) for f in (*kernel.findings, *kernel.warnings)]
        open_ = by_reason((u.line or kernel.line, u.reason) for u in kernel.unproven)
        head, notes = _verdict(kernel, look), [f"assumes that {one}" for one in assumptions_of(kernel)]
        notes += _rests_on(kernel) if detailed else ()
    title = "not judged" if isinstance(kernel, SassKernelCheck) else "not proven"
    for reason, lines in open_.items():
        blocks.append("\n".join([look.wrap(reason, f"{look.paint(title, 'warning')}: "), *_place(path, lines, look)]))
    verdict = [look.wrap(head), f"  --> {path}:{kernel.line}", *(look.wrap(note, "  = ", " " * 6) for note in notes)]
    return "\n\n".join([*blocks, "\n".join(verdict)])


def _place(path: str, lines: Sequence[int], look: Look) -> list[str]:
    also = [look.wrap(f"also at {lines_told(lines[1:])}", "  = ", " " * 6)] if len(lines) > 1 else []
    return [f"  --> {path}:{lines[0]}", *also]


def _finding(finding: Finding, path: str, look: Look) -> str:
    head = f"{look.paint(f'{finding.level}[{code_of(finding)}]', finding.level)}: "
    lines = [look.wrap(finding.message, head), *_place(path, (finding.line, *finding.also), look)]
    for name, said in (("note", finding.note), ("when", finding.launch)):
        lines += [look.wrap(said, f"  = {name}: ")] if said else []
    lines.append(look.wrap(finding.help, f"  = {look.paint('help', 'help')}: "))
    return "\n".join(lines)


def _machine_code(kernel: SassKernelCheck, look: Look) -> str:
    if not kernel.known:
        return f"{kernel.title}: {look.paint('not judged', 'warning')}"
    covered = ", ".join(f"{what} {count}" for what, count in kernel.covered.items()) or "no asynchronous instructions"
    verdict = _broken(kernel.findings, look) or look.paint("no break found in machine code", "good")
    return f"{kernel.title}: {verdict} ({covered}; {kernel.seconds:.2f} s)"


def _verdict(kernel: KernelCheck, look: Look) -> str:
    said = _broken(kernel.findings, look)
    if not said and kernel.unproven:
        said = look.paint("no break found, not all proven", "warning")
    said = said or look.paint("proven" + " under conditions" * bool(kernel.conditions), "good")
    reached, count = kernel.reached
    covered = f"{_of(reached, count)} operations in " if count and not kernel.findings else ""
    return f"{kernel.title}: {said} ({covered}{_count(kernel.runs, 'run')}, {kernel.seconds:.2f} s)"


def _broken(findings: Sequence[Finding], look: Look) -> str:
    return look.paint(f"{_count(len(findings), 'break')} of the contract", "error") if findings else ""


def _rests_on(kernel: KernelCheck) -> Iterator[str]:
    """Yield what a verdict rests on, besides assumptions."""
    reached, count = kernel.reached
    if kernel.covered and not kernel.findings:  # runs end where something breaks
        listed = ", ".join(f"{name} {_of(one, all_)}" for name, (one, all_) in kernel.covered.items())
        yield f"reached {_of(reached, count)} barriers and asynchronous operations: {listed}"
        if kernel.unreached:
            yield f"no launch that was tried reaches those at {lines_told(kernel.unreached)}"
    for name, values in kernel.parameters.items():
        yield f"tried {told(kernel.name, name)} = {_values(values)}"
    if known := _known(kernel.boxes, kernel.assumed):
        yield "knows bytes of boxes: " + ", ".join(f"{told(kernel.name, n)} {size}" for n, size in known.items())


def _known(boxes: Mapping[str, int], assumed: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in boxes.items() if name not in assumed and " at " not in name}


def _values(values: Sequence[int]) -> str:
    first = values if len(values) <= _MOST_VALUES else values[: _MOST_VALUES - 1]
    more = f", and {len(values) - len(first)} more up to {values[-1]}" if len(values) > len(first) else ""
    return ", ".join(map(str, first)) + more


def _of(one: int, count: int) -> str:
    return f"all {count}" if one == count else f"{one} of {count}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
