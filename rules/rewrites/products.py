"""Laws of products: what else C = A B^T equals. Rules say which of it is legal, the cost which is best.

Whole means in lines that begin at whole granules of 16 bytes, as tensor maps need them.
"""

import itertools
from collections.abc import Iterator
from typing import TypeAlias

from legalsat.options import MAJORS
from legalsat.terms.products import (
    CUT,
    LOOSE,
    SCATTERED,
    WAYS,
    accumulators,
    align,
    at,
    boxes,
    clip,
    columns,
    elements,
    flip,
    granules,
    joined,
    lapped,
    multiply,
    operand,
    pad,
    panes,
    product,
    realign,
    rows,
    shift,
    sliced,
    slide,
    store,
    transpose,
    turned,
    uncut,
    weave,
    windows,
    wrap,
)
from legalsat.terms.trees import Term, TermEquation, Variable, term_law

Equations: TypeAlias = Iterator[TermEquation]

K_ALONE, BOTH = 1, 2  # axes along which tiles may lie for the matrix unit
APART, SIDE_BY_SIDE, WHOLE, GROUPED = 0, 1, 2, 3  # how lines of C lie


def _begun(name: Variable, major: str) -> tuple[Term, Term]:
    """Return an operand whose lines begin anywhere, and one whose members do too, by maps that have these apart."""
    lies = operand(name, major, 0)
    return lies, granules(lies)


@term_law
def transpose_product(axes: Variable, a: Variable, b: Variable) -> Equations:
    """A B^T  =  (B A^T)^T"""
    yield TermEquation(product(axes, a, b), flip(product(axes, b, a)))


@term_law
def store_transposed(down: Variable, across: Variable, c: Variable) -> Equations:
    """C^T stored along its columns  =  C stored along its rows, and the other way round"""
    yield TermEquation(store(down, across, flip(c)), store(across, down, c))


@term_law
def store_by_boxes(down: Variable, c: Variable) -> Equations:
    """C in whole rows  =  C by boxes"""
    yield TermEquation(store(down, WHOLE, c), boxes(c))


@term_law
def store_turned(across: Variable, c: Variable) -> Equations:
    """C in whole columns  =  C by boxes of tiles that are turned"""
    yield TermEquation(store(WHOLE, across, c), turned(c))


@term_law
def store_by_rows(down: Variable, c: Variable) -> Equations:
    """C in rows side by side  =  C by threads, a granule each but for the ends of rows"""
    for across in (SIDE_BY_SIDE, WHOLE, GROUPED):
        yield TermEquation(store(down, across, c), rows(c))


@term_law
def store_by_lapping(down: Variable, c: Variable) -> Equations:
    """C in rows side by side  =  C by threads, whole sectors of L2, of tiles that lap over those beside them by one"""
    yield TermEquation(store(down, SIDE_BY_SIDE, c), lapped(c))


@term_law
def store_by_columns(across: Variable, c: Variable) -> Equations:
    """C in columns side by side  =  C by threads, column by column, of tiles that are turned"""
    for down in (SIDE_BY_SIDE, WHOLE, GROUPED):
        yield TermEquation(store(down, across, c), columns(c))


@term_law
def store_by_elements(c: Variable) -> Equations:
    """C of which no elements lie side by side  =  C by threads, row by row, each element by itself"""
    yield TermEquation(store(APART, APART, c), elements(c))


@term_law
def store_by_windows(down: Variable, c: Variable) -> Equations:
    """C in whole rows, in groups  =  C by boxes of windows that end where a group does"""
    yield TermEquation(store(down, GROUPED, c), windows(c))


@term_law
def store_turned_by_windows(across: Variable, c: Variable) -> Equations:
    """C in whole columns, in groups  =  C by boxes of tiles that are turned, of windows that end where a group does"""
    yield TermEquation(store(GROUPED, across, c), panes(c))


@term_law
def store_by_accumulators(down: Variable, across: Variable, c: Variable) -> Equations:
    """C stored  =  C by threads, along rows or columns, by way of all accumulators of a tile in shared memory"""
    yield TermEquation(store(down, across, c), accumulators(down, across, c))


@term_law
def split_k(down: Variable, across: Variable, c: Variable) -> Equations:
    """A B^T by accumulators  =  the sum over s of A[:, s] B[:, s]^T by accumulators, for any number of slices s of k"""
    yield TermEquation(accumulators(down, across, c), joined(down, across, WAYS, c))


@term_law
def slice_k(down: Variable, across: Variable, c: Variable) -> Equations:
    """A B^T stored  =  the sum over s of A[:, s] B[:, s]^T, by boxes, added up behind: s slices of k, any number"""
    yield TermEquation(store(down, across, c), sliced(down, across, WAYS, c))


@term_law
def multiply_whole(a: Variable, b: Variable) -> Equations:
    """A B^T  =  A B^T of tiles by boxes, with A and B whole along an axis that the matrix unit reads"""
    for axes in (K_ALONE, BOTH):
        for first, second in itertools.product(MAJORS[:axes], repeat=2):
            yield TermEquation(product(axes, a, b), multiply(at(first, a), at(second, b)))


@term_law
def shift_k(name: Variable, b: Variable) -> Equations:
    """A B^T  =  [F A] [0 B]^T row by row of A, where F is what lies in its granule before it, and 0 as wide"""
    for a in _begun(name, "K"):
        yield TermEquation(product(BOTH, a, b), shift(a, at("MN", b)))  # along which boxes of B begin at any k


@term_law
def realign_in_registers(name: Variable, b: Variable) -> Equations:
    """A B^T  =  A B^T with A's rows brought from the granule where each begins, and shifted in registers"""
    for axes in (K_ALONE, BOTH):
        for second in MAJORS[:axes]:
            for a in _begun(name, "K"):
                yield TermEquation(product(axes, a, b), realign(a, at(second, b)))


@term_law
def weave_in_registers(name: Variable, b: Variable) -> Equations:
    """A B^T  =  A B^T with A's lines, which lie across k, brought from the granule where each begins

    Elements of two neighbouring lines, wherever each has them, are joined to a word of a fragment in registers.
    """
    for second in MAJORS:
        for a in _begun(name, "MN"):
            yield TermEquation(product(BOTH, a, b), weave(a, at(second, b)))


@term_law
def slide_sums(a: Variable, name: Variable) -> Equations:
    """A B^T  =  the sum over p of A[:, p::8] B[:, p::8]^T, of lines of B that begin alike, columns where theirs are"""
    for b in _begun(name, "MN"):
        yield TermEquation(
            product(BOTH, a, b), slide(at("MN", a), b)
        )  # where lines of A that are apart along k lie apart


@term_law
def as_it_lies(name: Variable) -> Equations:
    """X whole along an axis  =  X, where it lies so"""
    for major in MAJORS:
        lies = operand(name, major, 1)
        yield TermEquation(at(major, lies), lies)


@term_law
def align_in_shared_memory(name: Variable) -> Equations:
    """X whole along an axis  =  X brought by granules that hold its lines, each moved to where a whole one would lie"""
    for major in MAJORS:
        for lies in _begun(name, major):
            yield TermEquation(at(major, lies), align(lies))


@term_law
def begin_in_granules(a: Variable, name: Variable, b: Variable) -> Equations:
    """X of members that begin anywhere  =  X by maps of lines that begin alike, one axis of which has granules

    Whatever lies between members, a line begins in one of all granules, fewer than 16 bytes behind its start. So there
    is a map for each of these, and one for each of both counts of lines that are as far apart. X itself is no such
    thing: it is so where it is asked for.
    """
    for major in MAJORS:
        lies, (_, begun) = operand(name, major, LOOSE), _begun(name, major)
        yield TermEquation(at(major, lies), at(major, begun))
        for axes in (K_ALONE, BOTH):
            found, other = ((lies, b), (begun, b)) if major == "K" else ((a, lies), (a, begun))
            yield TermEquation(product(axes, *found), product(axes, *other))


@term_law
def pad_first(name: Variable) -> Equations:
    """X whole along an axis  =  X copied to a longer pitch, where it lies along that axis"""
    for major in MAJORS:
        for whole in (0, LOOSE):
            lies = operand(name, major, whole)
            yield TermEquation(at(major, lies), pad(lies))


@term_law
def transpose_first(name: Variable) -> Equations:
    """X whole along an axis  =  X copied with its axes exchanged, where it lies along the other one"""
    for whole in (0, 1, LOOSE):
        for major, other in (MAJORS, MAJORS[::-1]):
            lies = operand(name, other, whole)
            yield TermEquation(at(major, lies), transpose(lies))


@term_law
def collect_first(name: Variable) -> Equations:
    """X whole along an axis  =  X copied element by element, where none lie side by side"""
    for major, other in (MAJORS, MAJORS[::-1]):
        lies = operand(name, major, SCATTERED)
        yield TermEquation(at(major, lies), pad(lies))
        yield TermEquation(at(other, lies), transpose(lies))
    along_k, across = (operand(name, major, CUT + SCATTERED) for major in MAJORS)
    yield TermEquation(uncut(along_k), pad(along_k))
    yield TermEquation(uncut(across), transpose(across))


@term_law
def read_by_wrapping_maps(name: Variable) -> Equations:
    """X in groups along k, whole along the other axis  =  X by boxes of a map that wraps, so that they end with a group

    Along k lines would be elements apart, and maps know whole granules alone (TM-06). Boxes of windows that slide would
    end so too, and need an axis less; but a map of all of them begins in front of X, where a load faulted.
    """
    whole, lies, across = operand(name, "MN", CUT + 1), operand(name, "MN", CUT), "MN"
    yield TermEquation(at(across, whole), wrap(whole))
    yield TermEquation(at(across, lies), wrap(pad(lies)))
    for other in (operand(name, "K", CUT), operand(name, "K", CUT + 1)):
        yield TermEquation(at(across, other), wrap(transpose(other)))


@term_law
def clip_k(a: Variable, b: Variable) -> Equations:
    """A B^T in groups along k  =  A B^T of k-tiles that hold others' k too, which are cleared"""
    for axes in (K_ALONE, BOTH):
        yield TermEquation(product(axes, a, b), clip(uncut(a), uncut(b)))


@term_law
def read_past_ends(name: Variable) -> Equations:
    """X in groups along k, beside other groups'  =  X by boxes along k, whole, padded or transposed so"""
    whole = operand(name, "K", CUT + 1)
    yield TermEquation(uncut(whole), whole)
    yield TermEquation(uncut(operand(name, "K", CUT)), pad(operand(name, "K", CUT)))
    for other in (operand(name, "MN", CUT), operand(name, "MN", CUT + 1)):
        yield TermEquation(uncut(other), transpose(other))
