"""Which kernel wins a measurement: in the regime that kernels run in, and never by noise against the first choice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from legalsat.runtime.choice import FINAL, FINALISTS, MOST_SETS, QUICK, ROTATED_BYTES, WINS, ranked


class Clock:
    """Gives times that are known, quick ones with errors, and notes who was timed with whom."""

    def __init__(self, times: Sequence[float], errors: Sequence[float] = ()) -> None:
        self.times, self.errors, self.asked = times, errors, list[tuple[tuple[int, ...], int]]()

    def __call__(self, numbers: Sequence[int], rounds: int) -> dict[int, float]:
        self.asked.append((tuple(numbers), rounds))
        errors = self.errors if rounds == QUICK and self.errors else [1.0] * len(self.times)
        return {number: self.times[number] * errors[number] for number in numbers}


def test_the_fastest_wins_and_the_default_is_among_the_finalists() -> None:
    clock = Clock([10.0, 9.0, 8.0, 12.0, 7.0, 9.5])
    assert list(ranked(range(6), clock)) == [4, 2, 1, 0, 5, 3]
    assert clock.asked == [((0, 1, 2, 3, 4, 5), QUICK), ((0, 4, 2, 1), FINAL)]


def test_the_default_stays_unless_another_one_is_clearly_faster() -> None:
    near = 10.0 * (WINS + 0.001)
    assert next(iter(ranked(range(3), Clock([10.0, near, 11.0])))) == 0
    assert next(iter(ranked(range(3), Clock([10.0, 10.0 * (WINS - 0.001), 11.0])))) == 1


def test_what_was_fast_by_noise_does_not_win() -> None:
    clock = Clock([10.0, 10.5, 10.4, 10.3], [1.2, 0.5, 0.5, 0.5])
    found = ranked(range(4), clock)
    assert next(iter(found)) == 0 and found[0] == 10.0, "timed again beside those that seemed faster"
    assert len(clock.asked[1][0]) == 1 + FINALISTS


def test_where_the_first_choice_cannot_be_built_the_next_one_is_the_default() -> None:
    assert list(ranked([2, 5], Clock([0.0, 0.0, 10.0, 0.0, 0.0, 9.95]))) == [2, 5]
    assert list(ranked([3], Clock([0.0, 0.0, 0.0, 4.0]))) == [3]


def test_operands_rotate_through_more_than_l2_holds() -> None:
    torch, ours = pytest.importorskip("torch"), pytest.importorskip("legalsat.torch")
    a, b = torch.randn(64, 128).bfloat16(), torch.randn(96, 128).bfloat16().t()
    sets = ours._sets_of(a, b)
    assert len(sets) == MOST_SETS
    for one, other, out in sets:
        assert torch.equal(one, a) and torch.equal(other, b.mT) and out.shape == (64, 96)
        assert (one.stride(), other.stride()) == (a.stride(), b.mT.stride())
    assert len({tensor.data_ptr() for one in sets for tensor in one}) == 3 * MOST_SETS, "none is another's memory"
    big = torch.empty(ROTATED_BYTES // 2, 1, dtype=torch.bfloat16)
    assert len(ours._sets_of(big, torch.empty(1, 8, dtype=torch.bfloat16))) == 1, "which L2 does not hold anyhow"


@pytest.mark.parametrize("late", [0, 1, 3])
def test_copies_lie_as_operands_do(late: int) -> None:
    torch, ours = pytest.importorskip("torch"), pytest.importorskip("legalsat.torch")
    held = torch.randn(4000)
    views = [
        held.as_strided((7, 50), (53, 1), late),
        held.as_strided((50, 7), (1, 53), late),
        held.as_strided((3, 7, 5), (0, 9, 1), late),  # broadcast along a batch
        held.as_strided((3, 7, 5), (2, 9, 1), late),  # rows of which some lie in others
    ]
    for view in views:
        copy = ours._copy_of(view)
        assert torch.equal(copy, view) and copy.stride() == view.stride()
        assert copy.data_ptr() % 16 == view.data_ptr() % 16
