"""Every list of modes that equals an access: what the laws make of it, and cuts wherever two modes would merge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from legalsat.law import Law
from legalsat.operators.access import Access, Mode
from legalsat.rules.rewrites import LAWS

MOST_LISTS = 400
# Laws that change modes or words; the others reorder modes or name a means, and every order and means is tried anyway.
MODE_LAWS = tuple(law for law in LAWS if not law.reorders and all(e.means is None for e in law.equations))


class TooManyWays(Exception):
    """A problem has more ways than are tried; the message says of what."""


def equal_accesses(start: Access, laws: Sequence[Law] = MODE_LAWS, *, cuts: bool = True) -> dict[Access, bool]:
    """Return every access that equals `start`, each in one order of its modes; and whether the laws lead to it.

    Without `cuts` the laws are read forwards alone; with them backwards too, and modes cut where two would merge.

    Raises:
        TooManyWays: there are more lists than `MOST_LISTS`.
    """
    found: dict[Access, bool] = {}
    known: dict[Access, tuple[Access, ...]] = {}
    for backwards in (False, True) if cuts else (False,):
        queue = list(found) or [_plain(start)]
        found |= dict.fromkeys(queue, not backwards) if not backwards else {}
        while queue:
            access = queue.pop()
            before = _backwards(access) if backwards else ()
            for after in (*_forwards(access, laws, known), *_exchanged(access), *before):
                state = _plain(after)
                if state.modes and state not in found:
                    found[state] = not backwards
                    queue.append(state)
            if len(found) > MOST_LISTS:
                raise TooManyWays(f"more than {MOST_LISTS} lists of modes equal {start}")
    return found


def _plain(access: Access) -> Access:
    """Return the access fastest mode first, without modes that say nothing; a scalar keeps one."""
    kept = tuple(m for m in access.modes if not m.extent == m.tile == 1) or access.modes[:1]
    return Access(access.word, tuple(sorted(kept, key=lambda m: (m.source == 0, m.source, m.target, m.extent, m.tile))))


def _forwards(access: Access, laws: Sequence[Law], known: dict[Access, tuple[Access, ...]]) -> Iterator[Access]:
    """Yield what a step of a law makes of the access: laws speak of few modes, which may stand anywhere in the list."""
    count = min(len(access.modes), max(len(e.left) for law in laws for e in law.equations))
    for chosen in itertools.combinations(range(len(access.modes)), count):
        rest = tuple(m for i, m in enumerate(access.modes) if i not in chosen)
        few = Access(access.word, tuple(access.modes[i] for i in chosen))
        if few not in known:
            known[few] = tuple(after for law in laws for _, after in law.unordered_steps(few))
        for after in known[few]:
            yield Access(after.word, rest + after.modes)


def _exchanged(access: Access) -> Iterator[Access]:
    """Yield the accesses in which a mode of extent 1 has the strides of another one with as long a tile.

    Both equal the one without strides, so that in an e-graph either stands for the other.
    """
    units = [(i, mode) for i, mode in enumerate(access.modes) if mode.extent == 1]
    for (i, one), (_, other) in itertools.permutations(units, 2):
        if one.tile == other.tile and one != other:
            yield Access(access.word, (*access.modes[:i], other, *access.modes[i + 1 :]))


def _backwards(access: Access) -> Iterator[Access]:
    """Yield the accesses that a merge leads from to this one.

    n:s->d/t comes of k:s->d/k and (n/k):ks->kd/(t/k) where tiles hold whole k, and of k:s->d/t and (n/k):ks->kd/1 where
    k holds whole tiles. A tile that overhangs its mode does so still: its shape is the user's.
    """
    for i, (n, s, d, t) in enumerate(access.modes):
        rest = (*access.modes[:i], *access.modes[i + 1 :])
        for k in divisors(n)[1:-1]:
            if t % k == 0:
                yield Access(access.word, (*rest, Mode(k, s, d, k), Mode(n // k, k * s, k * d, t // k)))
            if k % t == 0:
                yield Access(access.word, (*rest, Mode(k, s, d, t), Mode(n // k, k * s, k * d, 1)))


def divisors(number: int, limit: int | None = None) -> list[int]:
    """Return the divisors of a number, smallest first, up to a limit."""
    return [k for k in range(1, min(number, limit or number) + 1) if number % k == 0]
