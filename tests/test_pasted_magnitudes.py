"""How large the numbers of a report are, against the limits that CUDA's documents state."""

from __future__ import annotations

import pytest

from legalsat.pasted.wording.magnitudes import magnitudes
from legalsat.pasted.wording.ranking import features, is_term, pairs_of

# The largest 32-bit integer is 2**31 - 1, a grid has 65535 blocks along y, a block 1024 threads, and a block of an H100
# may ask for 227 KiB of shared memory (CUDA C++ Programming Guide, Compute Capabilities).
SAID = [
    ("the tensor has 2147483648 elements", "32 bits"),
    ("x = torch.zeros(2**31)", "32 bits"),
    ("n > INT_MAX", "32 bits"),
    ("index 4,294,967,296", "32 bits without a sign"),
    ("shape (50000, 100000)", "32 bits of elements"),
    ("2048 x 2048 x 2048 voxels", "32 bits of elements"),
    ("gridDim.y is 70304", "a grid"),
    ("a block of 2048 threads", "a block"),
    ("it asks for 232448 bytes", "shared memory"),
    ("allocating -1358236932 bytes", "wrapped"),
    ("allocating 18446744072154682432 bytes", "wrapped"),
]


@pytest.mark.parametrize(("text", "name"), SAID)
def test_a_number_past_a_limit_is_known_as_one(text: str, name: str) -> None:
    found = magnitudes(text)
    assert f">{name}" in found and found[f">{name}"] in text


@pytest.mark.parametrize("text", ["version 12.8 of 2024", "line 207, thread (31, 0, 0)", "0.2147483648", "size 1000"])
def test_small_numbers_and_parts_of_others_are_past_no_limit(text: str) -> None:
    assert not {">32 bits", ">32 bits of elements", ">a grid", ">shared memory", ">wrapped"} & magnitudes(text).keys()


def test_pairs_are_of_words_that_follow_one_another_and_are_no_terms() -> None:
    assert pairs_of("Grid strides overflow") == {"grid strid": "grid strides", "strid overflow": "strides overflow"}
    counted = features("Grid strides overflow past 2147483648")
    assert {word for word in counted if not is_term(word)} >= {"grid strid", ">32 bits"}
    assert all(is_term(word) for word in counted if word.startswith("@"))
