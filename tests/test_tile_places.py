"""How kernels divide by what a lane has the inverse of, by the same C++ on a host."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

from stored_on_host import compiled

from legalsat.backends.cute.product import part

LIMIT = 1 << 31  # of numbers of tiles


def test_quotients_by_inverses_are_those_of_whole_numbers(tmp_path: Path) -> None:
    text = part("parts")
    begin = text.index("CUTLASS_DEVICE int divided")
    library = compiled(
        tmp_path,
        [
            "inline unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t(a) * b) >> 32; }",
            text[begin : text.index("\n}", begin) + 2],
            'extern "C" int quotient(int number, int by, int *rest) { return divided(number, by, ~0u / by, *rest); }',
        ],
    )
    rng, rest = random.Random(3), ctypes.c_int()
    pairs = [(number, by) for number in range(300) for by in range(1, 40)]
    pairs += [(rng.randrange(LIMIT), max(1, int(2 ** rng.uniform(0, 31)) - 1)) for _ in range(20_000)]
    pairs += [
        (near, by) for by in (1, 2, 3, 7, 4095, LIMIT - 1) for near in (LIMIT - 1, LIMIT // by * by - 1, by - 1, by)
    ]
    for number, by in pairs:
        if number < LIMIT:
            found = library.quotient(number, by, ctypes.byref(rest))
            assert (found, rest.value) == divmod(number, by), (number, by)
