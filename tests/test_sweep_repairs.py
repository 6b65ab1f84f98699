"""Repairs of a sweep's rows: in the words of their fields, legal once they are made, and of the fewest bytes."""

from __future__ import annotations

import random
from math import ceil
from typing import Any

import pytest

from legalsat.extract.explain.explain import explain_tensor
from legalsat.sweeps.answers import answer
from legalsat.sweeps.classes import judged
from legalsat.sweeps.mending import Sides, class_of, mended
from legalsat.sweeps.problem import problem_of
from legalsat.targets import target
from legalsat.tensor import plain

H200 = target("h200")
BYTES = {"bf16": 2, "e4m3": 1}


def answered(row: dict[str, Any]) -> dict[str, Any]:
    return answer([problem_of(row, 1)], H200)[0]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_padded_is_said_in_the_words_of_the_row(seed: int) -> None:
    """A pitch is a multiple of 16 bytes, says the driver, so that the least extent is one up to the next multiple."""
    rng = random.Random(seed)
    dtype = rng.choice(sorted(BYTES))
    sizes = {name: rng.randint(130, 3000) for name in "mnk"}
    found = answered({**sizes, "dtype": dtype, "out_dtype": "bf16"})

    def step(name: str, width: int) -> str:
        longer = ceil(sizes[name] * width / 16) * 16 // width
        return f"pad {name} {sizes[name]} to {longer}"

    expected: dict[str, list[str]] = {}
    for operand, name, width in (("A", "k", BYTES[dtype]), ("B", "k", BYTES[dtype]), ("C", "n", 2)):
        if sizes[name] * width % 16:
            expected.setdefault(step(name, width), []).append(operand)
    assert found["repair"] == "; ".join(f"{words} ({', '.join(names)})" for words, names in expected.items())


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"batch": 1, "heads": 8, "queries": 128, "keys": 100, "head": 65}, "pad head 65 to 72 (Q, K, V, O)"),
        ({"name": "lm_head/prefill", "m": 16, "n": 50257, "k": 768}, "pad vocabulary 50257 to 50264 (C)"),
        ({"name": "model.lm_head", "m": 16, "n": 50257, "k": 768}, "pad vocabulary 50257 to 50264 (C)"),
        ({"name": "mlp_lm_header", "m": 16, "n": 50257, "k": 768}, "pad n 50257 to 50264 (C)"),
        ({"m": 64, "n": 64, "k": 64, "a_pitch": 65}, "set pitch 65 to 64 elements (A)"),
        ({"m": 64, "n": 64, "k": 64, "a_offset": 2}, "copy to an aligned allocation (A)"),
        (
            {"batch": 1, "height": 32, "width": 32, "channels": 3, "kernel_h": 3, "kernel_w": 3},
            "pad channels 3 to 8 (x)",
        ),
        ({"operator": "transpose", "shape": "128x1001"}, "pad axis 1: 1001 to 1008 (x)"),
        ({"batch": 3, "m": 64, "n": 64, "k": 63}, "pad k 63 to 64 (A, B)"),
        ({"m": 63, "n": 64, "k": 64, "a_major": "M"}, "pad m 63 to 64 (A)"),
    ],
)
def test_repairs_are_in_words_that_people_use(row: dict[str, Any], words: str) -> None:
    assert answered(row)["repair"] == words


def test_a_repair_that_is_offered_is_legal_and_no_smaller_one_is() -> None:
    rng, tried = random.Random(3), 0
    for _ in range(60):
        shape = [rng.choice((2, 3, 5, 8, 40, 100, 129)) for _ in range(rng.randint(2, 3))]
        strides, step = [1], shape[-1]
        for extent in shape[-2::-1]:
            step += rng.choice((0, 0, 1, 5))
            strides.insert(0, step)
            step *= extent
        row = {"operator": "copy", "shape": "x".join(map(str, shape)), "dtype": rng.choice(("u8", "bf16"))}
        problem = problem_of({**row, "strides": strides, "tile": "x".join(str(min(n, 32)) for n in shape)}, 1)
        sides = Sides(problem.operator.travels(H200), problem.operator.tensors)
        found = judged(class_of(sides.operands["x"]), H200)
        if found.legal or not found.repairs:
            continue
        made = mended(problem, "x", sides, found, H200)
        if made.tensor is None:
            continue
        tried += 1
        repaired = sides.operands["x"].but(source=made.tensor)
        assert explain_tensor(repaired, H200).legal
        assert made.tensor.shape == sides.stored["x"].shape
        if len(shape) == 2:
            pitch = plain(made.tensor.strides)[0]
            bits = made.tensor.dtype.bits
            assert all(other * bits % 128 for other in range(shape[1], pitch)), "no shorter rows are whole granules"
    assert tried > 10
