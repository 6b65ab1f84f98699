"""Which banks of shared memory the lanes of an access touch, and how many words the busiest one serves.

Lanes are modes (extent, stride in bytes) over the flat lane index, first mode fastest; each lane moves `width` bytes
from its address on. Words of `BankModel.bytes` lie in turn in the banks. Lanes that share a word are served at once,
so words count, not lanes. How an instruction splits its lanes into phases is `bank_wavefronts`' matter.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping

from legalsat.analyses.sets.progressions import bits, merged, numbers, reach, unsigned
from legalsat.analyses.sets.relations import Modes, injective
from legalsat.checks import integer
from legalsat.targets import BankModel


def worst_bank(lanes: Modes, width: int, banks: BankModel, base: int = 0) -> int:
    """Return the most distinct words that one bank serves; 1 is free of conflicts.

    Nothing is counted lane by lane where the words touched are modes that touch none twice; else bytes are.

    Raises:
        NotAffine: an extent is open.
        TooHard: bytes must be counted, and lie too far apart.
    """
    steps = numbers(lanes)
    touched = merged([(integer(width, "width", low=1), (1,)), *unsigned(steps)])
    start = (integer(base, "base") + sum((n - 1) * min(d, 0) for n, (d,) in steps)) % banks.bytes
    # Steps of whole words move words, so that only finer ones decide which words they cover.
    fine = [(n, v) for n, v in touched if v[0] % banks.bytes]
    last = (start + reach(fine)[0]) // banks.bytes
    # A single fine mode leaves no word out if its step is at most a word; several may.
    if last == 0 or (len(fine) == 1 and fine[0][1][0] <= banks.bytes):
        whole = ((n, (d // banks.bytes,)) for n, (d,) in touched if not d % banks.bytes)
        words = merged([(last + 1, (1,)), *whole])
        if injective(words) is True:
            return max(residues([(n, d) for n, (d,) in words], banks.count).values())
    return _counted(bits(touched) << start, banks)


def residues(modes: Iterable[tuple[int, int]], modulus: int) -> dict[int, int]:
    """Return how many of the sums of modes (extent, stride) leave each remainder: the cyclic convolution of all modes.

    Only remainders that occur are named. The time grows with these, not with the sums.
    """
    found: Mapping[int, int] = {0: 1}
    for n, d in modes:
        period = modulus // math.gcd(modulus, d)
        times = [-((i - n) // period) for i in range(min(n, period))]  # steps i, i + period, ... below n
        sums: Counter[int] = Counter()
        for remainder, number in found.items():
            for i, more in enumerate(times):
                sums[(remainder + i * d) % modulus] += number * more
        found = sums
    return dict(found)


def _counted(touched: int, banks: BankModel) -> int:
    """Return the words of the busiest bank, given the bytes touched as the bits of an int."""
    words = functools.reduce(int.__or__, (touched >> byte for byte in range(banks.bytes)))
    turn = banks.count * banks.bytes
    firsts = bits([(touched.bit_length() // turn + 1, (turn,))])
    return max((words & firsts << bank * banks.bytes).bit_count() for bank in range(banks.count))
