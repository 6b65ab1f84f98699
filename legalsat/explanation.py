"""What `explain` answers: reasons, what else must hold, for which extents it works, and repairs that were tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal

from legalsat.diagnostics import Basis, Diagnostic
from legalsat.plans.codec import plain_value
from legalsat.plans.movement_plan import MovementPlan
from legalsat.printable import printable
from legalsat.units.means import MEANS

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    After_co = TypeVar("After_co", default=Any, covariant=True)  # what repairs of a subject make of it
else:
    from typing import TypeVar

    After_co = TypeVar("After_co", covariant=True)

USES = 100
"""How often what was repaired is used, where nobody says it: laid out once, then read again and again."""
FALL_BACK = "fall back"
BOXED = frozenset(one.name for one in MEANS.values() if one.boxed)
Consequence = Literal["fault", "wrong", "clobber", "conflict", "overflow", "hang", "slow"]


@dataclass(frozen=True, slots=True)
class Snippet:
    """Source text that applies a repair.

    Attributes:
        terms: what it is written for: "torch", "cuda", "triton" or "cute".
        text: the source.
    """

    terms: str
    text: str


def way_and_time(how: str, nanoseconds: float) -> str:
    """Return in words how a product or a program is computed, and in which predicted time."""
    return f"{how}; predicted at {nanoseconds / 1e3:.1f} us"


@dataclass(frozen=True, slots=True)
class Repair(Generic[After_co]):
    """A change that makes the subject legal; it was applied and judged again, so it works.

    What changes nothing stands among them, with its own time, to compare with.

    Attributes:
        kind: what is changed: "align" (an aligned allocation), "pad" (a longer pitch), "view" (other axes on the same
            elements, with a longer pitch where the message says so), "stride" (that of an axis of one element),
            "dense" (a packed copy), "order" or "major" (another axis the fastest), "relayout" (a copy made each time),
            "repack" (one of a weight, made once), "tile", "consumer", "padding", "split" (parts, each with a map),
            "descriptor" (a descriptor's word), "fall back" (nothing: no tensor map), the field of a tensor map, or a
            number of a barrier ("bytes", "arrivals").
        message: what to do, with the numbers.
        after: the subject after it, of the subject's own kind; what falls back stays as it was. Of a tensor whose tile
            or consumer changes it is the `Copy` with the new one.
        bytes_added: bytes that the layout spans more than the old one.
        nanoseconds: predicted time of the movement or product after it, what `once` names not counted; None if nothing
            says how it is used.
        once: predicted time of applying it to data that lie as before, in nanoseconds; 0.0 where no data move.
        snippets: how to apply it, ready to paste.
        total: predicted time of applying it and of all uses that were asked about, in nanoseconds; repairs are in the
            order of it. None where `nanoseconds` is.
        pays_from: uses from which on it takes less time than changing nothing; None if it never does.
    """

    kind: str
    message: str
    after: After_co
    bytes_added: int
    nanoseconds: float | None = None
    once: float = 0.0
    snippets: tuple[Snippet, ...] = ()
    total: float | None = None
    pays_from: int | None = None

    @property
    def mends(self) -> bool:
        """Whether `after` is legal: all of them are but what changes nothing."""
        return self.kind != FALL_BACK

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values; what it becomes says in "kind" what it is."""
        after = plain_value(self.after)
        return {
            "kind": self.kind,
            "message": self.message,
            "after": {"kind": type(self.after).__name__, **(after if isinstance(after, dict) else {"value": after})},
            "after_in_words": str(self.after),
            "bytes_added": self.bytes_added,
            "nanoseconds": self.nanoseconds,
            "once_nanoseconds": self.once,
            "total_nanoseconds": self.total,
            "pays_from_uses": self.pays_from,
            "snippets": {snippet.terms: snippet.text for snippet in self.snippets},
        }


def with_total(repair: Repair[After_co], uses: int, unchanged: float | None = None) -> Repair[After_co]:
    """Return a repair with its total, and from how many uses on it pays.

    Args:
        repair: judged, and with a predicted time where there is one.
        uses: how often what was repaired is used.
        unchanged: predicted time of a use if nothing is changed, in nanoseconds; None if it cannot be used then.
    """
    if repair.nanoseconds is None:
        return repair
    total, pays = round(repair.once + uses * repair.nanoseconds, 1), None
    if unchanged is not None and repair.nanoseconds < unchanged and repair.mends:
        pays = max(1, int(repair.once // (unchanged - repair.nanoseconds)) + 1)
    return replace(repair, total=total, pays_from=pays)


@dataclass(frozen=True, slots=True)
class Obligation:
    """What must hold besides, that no call checks beforehand.

    Attributes:
        consequence: what happens else.
        message: the sentence.
        note: who says so.
    """

    consequence: Consequence
    message: str
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {"consequence": self.consequence, "message": self.message, "note": self.note}


@dataclass(frozen=True, slots=True)
class Explanation(Generic[After_co]):
    """What is wrong with a subject on a target, who says so, and what to change.

    Attributes:
        subject: what was explained, in words.
        of: the thing itself, None for a text.
        target: the GPU, by name.
        legal: whether no error was found; of a tensor, whether the copy engine takes boxes of it by its rows: of the
            map that keeps its axes and strides.
        diagnostics: every violated rule, worst first.
        repairs: changes that work, those with the least total first, and among them what changing nothing takes.
        plan: how it is done as it is: by boxes if that is legal, else by the best of the other means, if any.
        obligations: what must hold besides, that no call checks.
        values: what else is to be said, a sentence each: for which extents it works, what is proven and what is not.
        parts: of a product, its operands A, B and C, each explained alone.
        way: how a product is computed as it is, and its predicted time, in words.
        derivation: the laws that lead from a product to that kernel, in order; a plan has its own.
        undecided: what is missing to tell whether the subject is legal, where no error was found in what there is;
            `legal` is false then.
        uses: how many uses the totals of repairs count.
        viewed: whether a copy that is refused by its rows is legal by another view of the same elements.
    """

    subject: str
    target: str
    legal: bool
    diagnostics: tuple[Diagnostic, ...]
    repairs: tuple[Repair[After_co], ...] = ()
    plan: Any = None
    obligations: tuple[Obligation, ...] = ()
    values: tuple[str, ...] = ()
    of: Any = None
    parts: tuple[Explanation, ...] = ()
    way: str = ""
    derivation: tuple[str, ...] = ()
    undecided: str = ""
    uses: int = USES
    viewed: bool = False

    @property
    def verdict(self) -> str:
        """Return the verdict in words: of what boxes do not bring as it is also how it is done all the same."""
        if self.legal or self.undecided:
            return "legal" if self.legal else "undecided"
        if isinstance(self.plan, MovementPlan):
            if self.plan.before:
                return "no TMA path as it lies; laid out anew each time"
            if self.viewed or self.plan.access.by in BOXED:
                return "refused by its rows; another view of it is legal"
            return f"no TMA path; goes by {self.plan.access.by}"
        if self.way:
            names = [part.subject.partition(":")[0] for part in self.parts if not part.legal]
            return f"no TMA path for {' and '.join(names)}; computed all the same" if names else "refused"
        return "refused"

    @property
    def basis(self) -> Basis:
        """Return what it rests on at best: of a text of which nothing is known, how sure its words are."""
        found = {one.basis for one in self.diagnostics}
        return "known" if "known" in found or not found else "likely" if "likely" in found else "possible"

    @property
    def tone(self) -> Literal["good", "warning", "error"]:
        """How good the verdict is."""
        return "good" if self.legal else "warning" if self.undecided else "error"

    def __str__(self) -> str:
        from legalsat.view.show_explanation import show_explanation  # noqa: PLC0415 - showing needs explanations

        return printable(show_explanation(self))

    def _repr_html_(self) -> str:
        """Return the explanation with its pictures for a notebook."""
        from legalsat.view.show_html import explanation_html  # noqa: PLC0415 - showing needs explanations

        return explanation_html(self)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain values; a plan is left to `Plan.to_json`, but for where it is legal."""
        region = {}
        if self.plan is not None and self.plan.guard:
            from legalsat.extract.region.region import guard_in_words  # noqa: PLC0415 - isl is not needed without dims

            region["legal_region"] = {"set": self.plan.guard, "sentence": guard_in_words(self.plan)[0]}
        return {
            "subject": self.subject,
            "target": self.target,
            "legal": self.legal,
            "verdict": self.verdict,
            "basis": self.basis,
            **({"undecided": self.undecided} if self.undecided else {}),
            "diagnostics": [d.to_json() for d in self.diagnostics],
            "obligations": [o.to_json() for o in self.obligations],
            "values": list(self.values),
            "repairs": [r.to_json() for r in self.repairs],
            **({"uses": self.uses} if any(r.total is not None for r in self.repairs) else {}),
            **({"parts": [part.to_json() for part in self.parts]} if self.parts else {}),
            **({"way": self.way} if self.way else {}),
            **({"derivation": list(self.derivation)} if self.derivation else {}),
            **region,
        }
