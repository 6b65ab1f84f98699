"""The forms of a product's kernels: what the laws make of it, found once for each class of facts that they look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from legalsat.extract.kernels.product_class import ProductClass
from legalsat.extract.search.planner import ONE_AT_A_TIME
from legalsat.options import Major
from legalsat.rules.rewrites.products import BOTH, GROUPED, WHOLE
from legalsat.terms.products import CONSTRUCTORS, CUT, LOOSE, SCATTERED, operand, product, store
from legalsat.terms.tree_graph import TermGraph
from legalsat.terms.trees import Term, TermLaw, TermStep, derivation

REALIGN = {
    "multiply": "none",
    "clip": "none",
    "realign": "registers",
    "weave": "woven",
    "shift": "tiles",
    "slide": "sums",
}
STORES = {
    "boxes": "tma",
    "windows": "tma",
    "turned": "turned",
    "panes": "turned",
    "rows": "rows",
    "lapped": "lapped",
    "columns": "columns",
    "elements": "elements",
    "accumulators": "sums",
    "joined": "sums",
    "sliced": "tma",
}
BY_BOXES = frozenset({WHOLE, GROUPED})  # how lines of C lie that these may store
BEFORE = ("none", "pad", "transpose")  # what a kernel in front may do to an operand; copies are faster as they lie
ALIGN, BEGUN = "align", "granules"  # what this one does by the way, and how it finds members


@dataclass(frozen=True, slots=True)
class Facts:
    """What laws look at.

    Attributes:
        size: bytes of an operand's element. axes: along how many of them the matrix unit reads tiles, K first.
        a, b: the axis along which an operand's elements lie side by side, and whether a tensor map describes it.
        down, across: how columns and rows of C lie: 0 apart, 1 side by side, 2 in whole granules, 3 so in groups.
        cut, grouped: whether groups cut the operands along k, or rows of A.
        loose: of which of both members begin anywhere in a granule.
        scattered: of which of both no elements lie side by side.
        uncounted: what no kernel in front does to either.
    """

    size: int
    axes: int
    a: tuple[Major, bool]
    b: tuple[Major, bool]
    down: int
    across: int
    cut: bool = False
    loose: tuple[bool, bool] = (False, False)
    scattered: tuple[bool, bool] = (False, False)
    uncounted: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    grouped: bool = False

    @staticmethod
    def of(one: ProductClass) -> Facts:
        """Return what laws look at of a class."""
        a, b = ((side.major, side.legal) for side in (one.a, one.b))
        loose, scattered = (not one.a.whole, not one.b.whole), (one.a.scattered, one.b.scattered)
        lie = one.dtype.bytes, one.axes, a, b, one.down, one.across
        uncounted = one.a.uncounted, one.b.uncounted
        return Facts(*lie, one.ragged == "k", loose, scattered, uncounted, one.ragged == "m")

    @property
    def term(self) -> Term:
        """The product, stored, as it is asked for."""
        cut, sides = CUT * self.cut, zip("AB", (self.a, self.b), self.loose, self.scattered, strict=True)
        a, b = (
            operand(name, major, cut + (SCATTERED if scattered else LOOSE if loose else whole))
            for name, (major, whole), loose, scattered in sides
        )
        return store(self.down, self.across, product(self.axes, a, b))


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel but for its numbers; fields but the first and the last are `ProductKernel`'s.

    Attributes:
        term: what the laws made of the product.
        splits: whether CTAs of a cluster have an open number of slices of k.
        slices: whether products of their own have.
        clipped: whether others' k are cleared of tiles of groups along k.
    """

    term: Term
    swapped: bool
    majors: tuple[Major, Major]
    relayouts: tuple[str, str]
    aligned: tuple[bool, bool]
    loose: tuple[bool, bool]
    realign: str
    store: str
    splits: bool
    slices: bool
    clipped: bool = False

    @staticmethod
    def of(term: Term) -> Form:
        """Return the form that a kernel's term says."""
        multiplied: Any = term.parts[-1]
        sides = [_operand(side) for side in multiplied.parts]
        return Form(
            term,
            sides[0][0] == "B",
            (sides[0][1], sides[1][1]),
            (_in_front(sides[0][2]), _in_front(sides[1][2])),
            (sides[0][2] == ALIGN, sides[1][2] == ALIGN),
            (_begun(multiplied.parts[0]), _begun(multiplied.parts[1])),
            REALIGN[multiplied.name],
            STORES[term.name],
            term.name == "joined",
            term.name == "sliced",
            multiplied.name == "clip",
        )

    @property
    def passes(self) -> tuple[bool, bool]:
        """Whether the user's A is laid out anew first, and his B."""
        first, second = (one != "none" for one in self.relayouts)
        return (second, first) if self.swapped else (first, second)

    @property
    def order(self) -> tuple[object, ...]:
        """Where it stands among forms that take as long."""
        before = (BEFORE.index(one) for one in self.relayouts)
        return (
            self.swapped,
            *before,
            sum(self.aligned),
            self.clipped,
            list(REALIGN.values()).index(self.realign),
            self.store == "sums",
            self.splits,
            self.slices,
        )


def _begun(side: Any) -> bool:
    """Whether an operand comes by maps with an axis of granules, in which its members begin."""
    return side.name == BEGUN or (side.name != "operand" and _begun(side.parts[0]))


def _operand(side: Any) -> tuple[str, Major, str]:
    """Return an operand's name, the axis along which it is read, and what is done to it first."""
    if side.name in {"wrap", BEGUN}:
        return _operand(side.parts[0])
    if side.name == "operand":
        name, major, _ = side.parts
        return name, major, "none"
    name, major, _ = _operand(side.parts[0])
    turned: Major = "MN" if major == "K" else "K"
    return name, turned if side.name == "transpose" else major, side.name


def _in_front(done: str) -> str:
    """Return what a kernel in front does of what is done to an operand."""
    return "none" if done == ALIGN else done


def exists(form: Form, facts: Facts) -> bool:
    """Whether kernels have such parts together, and each does something that is not done without it."""
    realigned, (lies, down) = form.realign == "registers", (facts.across, facts.down)
    uncounted = facts.uncounted
    if form.swapped:
        lies, down, uncounted = down, lies, uncounted[::-1]
    copied = zip(form.relayouts, form.loose, uncounted, strict=True)
    if any(first in some or (loose and first != "none") for first, loose, some in copied):
        return False  # copies of members lie whole, however those begin
    if any(form.aligned) and form.realign != "none":  # which ask other things of B's boxes, and of A's
        return False
    by_boxes = lies == 2 and not realigned  # which can do what threads do
    apart = realigned and facts.size == 1  # of 16 phases no 64 rows are neighbours in C
    if not (lies or down):  # nothing else stores elements that lie apart
        return form.store == "elements" and not _idle(form, facts)
    if form.realign == "sums" and (form.splits or (lies and form.store == "sums" and not form.slices)):
        return False  # whose k-tiles are in phases already, and whose rows threads or boxes store as they lie
    if form.slices:  # boxes of their own memory, which they fit in
        return not apart and not _idle(form, facts)
    stored = {
        "sums": form.realign != "tiles",
        "tma": by_boxes or lies == 3,
        "turned": not lies and not apart and form.realign != "tiles",  # rows of one phase are no neighbours in C
        "rows": not by_boxes,
        "lapped": lies == 1 and form.realign in {"none", "tiles", "woven"},
        # What is as well computed the other way round, or stored by boxes, is not.
        "columns": not lies and not apart and (form.realign == "tiles" or down not in BY_BOXES),
    }
    return stored[form.store] and not _idle(form, facts)


def _idle(form: Form, facts: Facts) -> bool:
    """Whether an operand is copied first that could be read as it lies, and the other one is not realigned either.

    Along the other axis tiles may have other widths, which gains a few percent at most, for memory as large as the
    operand. Beside one that is realigned it may gain more, and K is shifted, or lies in phases, along one axis alone.
    Elements that lie apart are read along the axis on which they are nearest, where lines may lie along that one.
    Groups of rows begin anywhere, where no box along rows does: their A is read along K.
    """
    lie, scattered, grouped = (facts.a, facts.b), facts.scattered, (facts.grouped, False)
    if form.swapped:
        lie, scattered, grouped = lie[::-1], scattered[::-1], grouped[::-1]
    by_maps = facts.cut and not form.clipped  # which end with a group where lines lie across k
    along = "MN" if by_maps else "K" if form.clipped or facts.axes < BOTH else ""
    read = [
        whole and (major == "K" if rows else along in {major, ""})
        for (major, whole), rows in zip(lie, grouped, strict=True)
    ]
    needed = (form.realign == "sums", form.realign in {"tiles", "registers", "woven"})
    # What lies along k stays so where it is copied: tiles may have any width then.
    stays = [major == "K" and not by_maps for major, _ in lie]
    if any(
        own and one == "transpose" and along in {major, ""}
        for own, one, (major, _) in zip(scattered, form.relayouts, lie, strict=True)
    ):
        return True
    done = zip(form.relayouts, read, stays, needed, strict=True)
    return any(
        not must and ((one == "transpose" and along) or (one != "none" and can)) for one, can, along, must in done
    )


@lru_cache(maxsize=4096)
def forms_of(facts: Facts, laws: tuple[TermLaw, ...]) -> tuple[Form, ...]:
    """Return the forms that laws make of products with these facts."""
    with ONE_AT_A_TIME, TermGraph(CONSTRUCTORS, laws) as graph:
        found = [Form.of(term) for term in graph.equal_to(facts.term)]
    return tuple(sorted((form for form in found if exists(form, facts)), key=lambda form: form.order))


@lru_cache(maxsize=1024)
def steps_to(form: Form, facts: Facts, laws: tuple[TermLaw, ...]) -> tuple[TermStep, ...]:
    """Return the laws that lead from a product to a form, in order."""
    return derivation(facts.term, form.term, laws)
