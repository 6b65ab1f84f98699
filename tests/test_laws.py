"""Every law keeps the movement: what is moved and in which tiles is the same before and after, by brute force."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from legalsat.errors import LegalSatError
from legalsat.extract.search.search import candidates, canonical, function_form
from legalsat.law import Equation, Equations, Int, Law, Slot, divides, law, less, mode, rewrite
from legalsat.operators.access import Access, Mode
from legalsat.rules.rewrites import LAWS, laws_in, modes
from legalsat.terms.accesses import Graph
from legalsat.units.means import ANY, MEANS

MOST_ELEMENTS = 3000
MOST_BINDINGS = 1000
# Numbers that variables are bound to. Guards of long tiles need the large ones.
NUMBERS = (*range(1, 10), 12, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 258, 260, 264, 272, 288, 315, 320, 384, 512)
CONTEXT = st.builds(Mode, *(st.integers(1, 3), st.integers(0, 700), st.integers(0, 700), st.integers(1, 4)))


def variables_of(slots: tuple[Slot, ...], position: int) -> set[str]:
    """Return the variables that stand alone at this position of a mode: 0 extent, 1 source, 2 target, 3 tile."""
    return {slot[position].name for slot in slots if slot[position].operator == "name"}


def size(slots: tuple[Slot, ...], bound: dict[str, int]) -> int:
    elements = 1
    for slot in slots:
        elements *= slot[0].value(bound)
    return elements


@cache
def counts_of(equation: Equation, law: Law) -> list[dict[str, int]]:
    """Return extents and tiles at which the guards on them hold and the left side is small."""
    names = sorted({name for slot in equation.left for part in (slot[0], slot[3]) for name in names_in(part)})
    found = []
    for numbers in itertools.product(NUMBERS, repeat=len(names)):
        bound = dict(zip(names, numbers, strict=True))
        guards = [g for g in equation.guards if names_in(g.left) | names_in(g.right) <= set(names)]
        if size(equation.left, bound) <= MOST_ELEMENTS and all(guard.holds(bound) for guard in guards):
            found.append(bound)
        if len(found) == MOST_BINDINGS:
            break
    assert found, f"no small numbers satisfy the guards of {law.name}"
    return found


def names_in(number: Int) -> set[str]:
    """Return the variables that occur in an expression."""
    if number.operator == "name":
        return {number.name}
    return set().union(*(names_in(operand) for operand in number.operands))


@st.composite
def instances(draw: st.DrawFn, equation: Equation, law: Law) -> tuple[Access, int]:
    """Draw an access whose modes match the left side at a position, among other modes; and the position."""
    bound = dict(draw(st.sampled_from(counts_of(equation, law))))
    for name in sorted(variables_of(equation.left, 1) | variables_of(equation.left, 2)):
        bound[name] = draw(st.integers(0, 700))
    assume(all(guard.holds(bound) for guard in equation.guards))
    word = equation.words[0] if equation.words else draw(st.sampled_from((4, 8, 16)))
    before = [] if equation.anchored else draw(st.lists(CONTEXT, max_size=1))
    after = draw(st.lists(CONTEXT, max_size=1))
    matched = [Mode(*(number.value(bound) for number in slot)) for slot in equation.left]
    return Access(word, (*before, *matched, *after)), len(before)


def equations_of(*laws: Law) -> pytest.MarkDecorator:
    """Run a test once for each equation of the laws."""
    pairs = [(law, equation) for law in laws for equation in law.equations]
    return pytest.mark.parametrize(
        ("law", "equation"), pairs, ids=[f"{law.name}-{law.equations.index(e)}" for law, e in pairs]
    )


def check(law: Law, equation: Equation, examples: int) -> int:
    """Check an equation on random accesses that it matches, and return how many; AssertionError where it is wrong."""
    fired = 0

    # No shrinking: brute force over what shrinking tries takes minutes, and the message names the access either way.
    @settings(deadline=None, max_examples=examples, database=None, phases=(Phase.generate,))
    @given(instances(equation, law))
    def keeps_the_movement(drawn: tuple[Access, int]) -> None:
        nonlocal fired
        access, at = drawn
        after = equation.match(access, at)
        assert after is not None, f"{law.name} does not match its own left side {access}"
        assert after in law.steps(access)
        assert after.tiles() == access.tiles(), f"{law.name}: {access} is not {after}"
        fired += 1

    keeps_the_movement()
    return fired


@equations_of(*LAWS)
def test_a_law_keeps_the_movement(law: Law, equation: Equation) -> None:
    assert check(law, equation, 30) >= 30


@equations_of(*LAWS)
def test_the_e_graph_applies_a_law_as_the_plain_reading_does(law: Law, equation: Equation) -> None:
    fired = 0

    @settings(deadline=None, max_examples=8, database=None)
    @given(instances(equation, law))
    def same(drawn: tuple[Access, int]) -> None:
        nonlocal fired
        access, _ = drawn
        with Graph((law,)) as graph:
            graph.add(0, access)
            graph.step()
            for step in law.steps(access):
                assert graph.equal(access, step)
                fired += 1
        assert {found.access.tiles() for found in candidates([access], (law,))[0]} == {access.tiles()}

    same()
    assert fired >= 8


@law
def unsound_law(n: Int, s: Int, d: Int, t: Int) -> Equations:
    """n:s->d/t  =  n/2:2s->2d/t"""
    yield rewrite(mode(n, s, d, t)).to(mode(n // 2, s * 2, d * 2, t))


@law
def almost_sound_law(n: Int, s: Int, d: Int, t: Int) -> Equations:
    """n:s->d/t  =  2:s->d/2, n/2:2s->2d/(t/2)  where 2 divides t (and, forgotten here, n)"""
    yield rewrite(mode(n, s, d, t)).to(mode(2, s, d, 2), mode(n // 2, s * 2, d * 2, t // 2), when=(divides(2, t),))


@law
def law_that_changes_tiles(n: Int, s: Int, d: Int) -> Equations:
    """n:s->d/n  =  n:s->d/1"""
    yield rewrite(mode(n, s, d, n)).to(mode(n, s, d, 1))


@equations_of(unsound_law, almost_sound_law, law_that_changes_tiles)
def test_an_unsound_law_is_caught(law: Law, equation: Equation) -> None:
    with pytest.raises(AssertionError, match="is not"):
        check(law, equation, 30)


def test_the_e_graph_too_believes_an_unsound_law() -> None:
    """So it is the check of laws that keeps them out, and this test can fail."""
    access = Access(8, (Mode(4, 8, 8, 4),))
    assert any(found.access.tiles() != access.tiles() for found in candidates([access], (unsound_law,))[0])


def test_what_no_law_equates_the_e_graph_keeps_apart() -> None:
    one, other = Access(8, (Mode(4, 8, 8, 4),)), Access(8, (Mode(4, 8, 16, 4),))
    with Graph(LAWS) as graph:
        graph.add(0, one)
        graph.add(1, other)
        graph.step()
        assert not graph.equal(one, other)
        assert graph.equal(one, one)


@given(st.lists(CONTEXT, min_size=1, max_size=3), st.sampled_from((4, 8, 16, 32)), st.sampled_from((ANY, *MEANS)))
def test_what_goes_into_the_graph_comes_out(found: list[Mode], word: int, means: str) -> None:
    access = Access(word, tuple(found), means)
    kept = [m for m in found if not (m.extent == 1 and m.tile == 1)] or found[-1:]
    came = {one.access for one in candidates([access], ())[0]}
    form = function_form(access)
    expected = {canonical(Access(word, tuple(kept), means))} | ({form} if form is not None else set())
    assert came == expected


def test_laws_are_named_once_and_documented_by_their_equation() -> None:
    assert len({law.name for law in LAWS}) == len(LAWS)
    for found in LAWS:
        assert "  =  " in found.docs
        assert found.equations
        for equation in found.equations:
            used = {name for slot in (*equation.left, *equation.right) for part in slot for name in names_in(part)}
            assert used <= set(found.variables)
    assert laws_in(modes)[0] in LAWS


def test_a_law_without_its_equation_is_refused() -> None:
    def silent(n: Int) -> Equations:
        yield rewrite(mode(n, 1, 1, 1)).to()

    with pytest.raises(LegalSatError, match="docstring"):
        law(silent)


def test_guards_and_words_limit_where_a_law_applies() -> None:
    equation = rewrite(mode(8, 8, 8, 8), words=(8, 16)).to(mode(4, 16, 16, 4))
    matching = Mode(8, 8, 8, 8)
    assert equation.match(Access(8, (matching,)), 0) == Access(16, (Mode(4, 16, 16, 4),))
    assert equation.match(Access(16, (matching,)), 0) is None
    assert equation.match(Access(8, (matching, matching)), 1) is None
    guarded = rewrite(mode(8, 8, 8, 8)).to(when=(less(2, 1),))
    assert guarded.match(Access(8, (matching,)), 0) is None
