"""Checks the asynchronous contract on machine code: what the assembler made of a kernel, by the order of instructions.

PTX says what was asked for; ptxas orders it anew. The check of PTX runs a kernel and proves; this one follows all ways
through the machine code, and claims less: which registers, fences, groups and waits it judged, and that no break is in
them. It knows the asynchronous instructions of sm_90.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.sass.contract import judge
from legalsat.analyses.sass.text import Kernel, parse
from legalsat.errors import InvalidInput
from legalsat.extract.check.ptx_names import one_a_cause, title_of
from legalsat.targets import target as as_target

KNOWN = "sm_90"  # whose asynchronous instructions are known


@dataclass(frozen=True, slots=True)
class Unjudged:
    """What was not judged: the line of the text, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class SassKernelCheck:
    """What was found about one function.

    Attributes:
        name: of the function. line: where it stands. known: whether its architecture is one that can be judged.
        findings: breaks of the contract. unjudged: what the order of instructions leaves open.
        covered: how many instructions were judged, by what they do.
        seconds: taken.
    """

    name: str
    line: int
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    covered: dict[str, int]
    seconds: float
    known: bool = True

    @property
    def title(self) -> str:
        """The name in short, as the source has it."""
        return title_of(self.name)


@dataclass(frozen=True, slots=True)
class SassCheck:
    """What was found about machine code: the architectures that it names, "" for none, and one entry a function."""

    target: str
    kernels: tuple[SassKernelCheck, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Breaks of the contract in all functions."""
        return tuple(f for kernel in self.kernels for f in kernel.findings)

    @property
    def unjudged(self) -> tuple[Unjudged, ...]:
        """What is not judged in all functions."""
        return tuple(u for kernel in self.kernels for u in kernel.unjudged)


def check_sass(text: str, target: str | None = None) -> SassCheck:
    """Check each function of a disassembly, as `cuobjdump -sass` and `nvdisasm` print it.

    Args:
        text: machine code in text, with offsets.
        target: a GPU or architecture whose functions are checked, where there are some; all of them when left out.

    Raises:
        NotSass: there is no machine code in the text.
        InvalidInput: all functions are for other ones.
        UnknownTarget: the target is none that is known.
    """
    module = parse(text)
    kernels = module.kernels
    if target is not None and module.target:
        wished = (target if target.startswith("sm_") else as_target(target).architecture).rstrip("af")
        kernels = [kernel for kernel in kernels if kernel.target.rstrip("af") in {"", wished}]
        if not kernels:
            raise InvalidInput(f"the code is for {module.target}, not {target}; leave the target out or give that one")
    return SassCheck(module.target, tuple(map(_check, kernels)))


def _check(kernel: Kernel) -> SassKernelCheck:
    started = time.monotonic()
    if kernel.target and kernel.target.rstrip("a") != KNOWN:
        reason = f"the asynchronous instructions of {kernel.target} are not known, only those of {KNOWN}"
        return SassKernelCheck(kernel.name, kernel.line, (), (Unjudged(kernel.line, reason),), {}, 0.0, known=False)
    judged = judge(kernel)
    open_ = tuple(Unjudged(line, reason) for line, reason in judged.unjudged)
    findings = tuple(one_a_cause(judged.findings))
    seconds = time.monotonic() - started
    return SassKernelCheck(kernel.name, kernel.line, findings, open_, judged.covered, seconds)
