"""What `explain` answers: reasons, what else must hold, for which extents it works, and repairs that were tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from legalsat.diagnostics import Diagnostic
from legalsat.plan import Plan
from legalsat.printable import printable

Consequence = Literal["fault", "wrong", "clobber", "conflict", "overflow", "hang", "slow"]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Source text that applies a repair: what it is written for ("torch", "cuda", "triton", "cute"), and the text."""

    terms: str
    text: str


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that makes the subject legal; it was applied and judged again, so it works.

    Attributes:
        kind: what is changed: "align" (an aligned allocation), "pad" (a longer pitch), "dense" (a packed copy), "order"
            or "major" (another axis the fastest), "relayout" (a copy made each time), "repack" (one of a weight, made
            once), "tile", "consumer", "padding", "split" (parts, each with a map), "descriptor" (a descriptor's
            word), "fall back" (nothing: no tensor map), the field of a tensor map, or a number of a barrier ("bytes",
            "arrivals").
        message: what to do, with the numbers.
        after: the subject after it, of the subject's own kind; what falls back stays as it was. Of a tensor whose tile
            or consumer changes it is the `Copy` with the new one.
        bytes_added: bytes that the layout spans more than the old one.
        nanoseconds: predicted time of the movement or product after it, what `once` names not counted; None if nothing
            says how it is used.
        once: predicted time of applying it to data that lie as before, in nanoseconds; 0.0 where no data move.
        snippets: how to apply it, ready to paste.
    """

    kind: str
    message: str
    after: Any
    bytes_added: int
    nanoseconds: float | None = None
    once: float = 0.0
    snippets: tuple[Snippet, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; what it becomes in words."""
        return {
            "kind": self.kind,
            "message": self.message,
            "after": str(self.after),
            "bytes_added": self.bytes_added,
            "nanoseconds": self.nanoseconds,
            "once_nanoseconds": self.once,
            "snippets": {snippet.terms: snippet.text for snippet in self.snippets},
        }


@dataclass(frozen=True, slots=True)
class Obligation:
    """What must hold besides, that no call checks beforehand: what happens else, the sentence, and who says so."""

    consequence: Consequence
    message: str
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {"consequence": self.consequence, "message": self.message, "note": self.note}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is wrong with a subject on a target, who says so, and what to change.

    Attributes:
        subject: what was explained, in words; `of` is the thing itself, None for a text.
        target: the GPU, by name.
        legal: whether no error was found; of a tensor, whether the copy engine takes boxes of it as it is.
        diagnostics: every violated rule, worst first.
        repairs: changes that work, cheapest first.
        plan: how it is done as it is: by boxes if that is legal, else by the best of the other means, if any.
        obligations: what must hold besides, that no call checks.
        values: what else is to be said, a sentence each: for which extents it works, what is proven and what is not.
        parts: of a product, its operands A, B and C, each explained alone.
        way: how a product is computed as it is, and its predicted time, in words.
        undecided: what is missing to tell whether the subject is legal, where no error was found in what there is;
            `legal` is false then.
    """

    subject: str
    target: str
    legal: bool
    diagnostics: tuple[Diagnostic, ...]
    repairs: tuple[Repair, ...] = ()
    plan: Plan | None = None
    obligations: tuple[Obligation, ...] = ()
    values: tuple[str, ...] = ()
    of: Any = None
    parts: tuple[Explanation, ...] = ()
    way: str = ""
    undecided: str = ""

    @property
    def verdict(self) -> Literal["legal", "refused", "undecided"]:
        """The answer in a word."""
        return "legal" if self.legal else "undecided" if self.undecided else "refused"

    def __str__(self) -> str:
        from legalsat.show_explanation import show_explanation  # noqa: PLC0415 - showing needs explanations

        return printable(show_explanation(self))

    def _repr_html_(self) -> str:
        """Return the explanation with its pictures for a notebook."""
        from legalsat.show_html import explanation_html  # noqa: PLC0415 - showing needs explanations

        return explanation_html(self)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain values; a plan is left to `Plan.to_json`, but for where it is legal."""
        region = {}
        if self.plan is not None and self.plan.guard:
            from legalsat.extract.region import guard_in_words  # noqa: PLC0415 - isl is not needed without dims

            region["legal_region"] = {"set": self.plan.guard, "sentence": guard_in_words(self.plan)[0]}
        return {
            "subject": self.subject,
            "target": self.target,
            "legal": self.legal,
            **({"undecided": self.undecided} if self.undecided else {}),
            "diagnostics": [d.to_json() for d in self.diagnostics],
            "obligations": [o.to_json() for o in self.obligations],
            "values": list(self.values),
            "repairs": [r.to_json() for r in self.repairs],
            **({"parts": [part.to_json() for part in self.parts]} if self.parts else {}),
            **({"way": self.way} if self.way else {}),
            **region,
        }
