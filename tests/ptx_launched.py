"""Products' kernels in PTX, launched on a model of the machine: operands in memory with guards, and what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from ptx_formats import decode, encode
from ptx_machine import MAP_BYTES, PARAMETER_BASE, Given, Global, parse, run_cluster

import legalsat as ls
from legalsat.backends.ptx.program import program_for
from legalsat.plans.product_kernel import ProductKernel
from legalsat.runtime.program import AddressArgument, MapsArgument, NumberArgument, Program
from legalsat.targets import Target, target
from legalsat.tensor import plain

H200 = target("h200")
GUARD, UNTOUCHED = 1 << 15, 0xA5  # of bytes: maps of windows begin as far in front of C
WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Memory:
    """A tensor in memory of its own, with bytes around it that nobody may change."""

    def __init__(self, tensor: ls.Tensor, at: int) -> None:
        shape, strides = plain(tensor.shape), plain(tensor.strides)
        self.kind, size = tensor.dtype.name, tensor.dtype.bytes
        steps = [np.arange(n) * step for n, step in zip(shape, strides, strict=True)]
        self._at = sum(np.ix_(*steps), np.zeros((), np.int64)) if steps else np.zeros((), np.int64)
        self.address = at + GUARD + tensor.address % GUARD
        self.begin = at
        span = (int(self._at.max()) + 1) * size
        self.memory = np.full(2 * GUARD + tensor.address % GUARD + -(-span // GUARD) * GUARD, UNTOUCHED, dtype=np.uint8)
        first = self.address - at
        self._words = self.memory[first : first + span].view(WORDS[size])

    def put(self, values: Any) -> None:
        self._words[self._at] = encode(values, self.kind)

    @property
    def words(self) -> Any:
        return self._words[self._at]

    @property
    def values(self) -> Any:
        return decode(self.words, self.kind)

    def untouched(self) -> bool:
        """Whether all bytes but elements are as they were; forgets the elements."""
        self._words[self._at] = UNTOUCHED * 0x01010101 & (1 << 8 * self._words.itemsize) - 1
        return bool((self.memory == UNTOUCHED).all())


def operands_of(made: Program, values: dict[str, Any]) -> dict[str, Memory]:
    """Return memory for the operands of a program's kernel, those that are laid out anew as they then lie."""
    relaid = {one.operand: one.program.operands[-1].tensor for one in made.before}
    found = {}
    for number, one in enumerate(made.operands):
        found[one.name] = Memory(relaid.get(one.name, one.tensor), (number + 4) << 33)
        if one.name in values:
            found[one.name].put(values[one.name])
    return found


def launch(made: Program, text: str, memories: dict[str, Memory], clusters: int, seed: int) -> None:
    """Launch a program's kernel with so many clusters, 0 for as many as it says, and run one after the other."""
    (recipe,), parsed = made.recipes, parse(text)
    parameters, maps = dict[str, int](), list[Global]()
    for name, one in zip(parsed.parameters, recipe.arguments, strict=True):
        if isinstance(one, MapsArgument):
            parameters[name] = PARAMETER_BASE + MAP_BYTES * len(maps)
            for each in one.maps:
                at = memories[each.operand]
                maps.append(Global(at.memory[at.address - at.begin + each.offset :], each.map))
        elif isinstance(one, AddressArgument):
            parameters[name] = memories[one.operand].address + one.offset
        else:
            assert isinstance(one, NumberArgument) and isinstance(one.value, int)
            parameters[name] = one.value
    given = Given(parameters, maps, {one.begin: one.memory for one in memories.values()})
    blocks = recipe.cluster[0]
    count = clusters or recipe.grid[0] // blocks
    for number in range(count):
        run_cluster(parsed, (number * blocks, blocks, count * blocks), recipe.shared, given, seed + number)


def multiplied(
    gemm: ls.Gemm, kernel: ProductKernel, *, clusters: int = 0, seed: int = 0, text: str = "", gpu: Target = H200
) -> None:
    """Run a product by a kernel on whole numbers, with a row that is not finite, and check every byte."""
    rng = np.random.default_rng(seed)
    made = program_for(gemm, kernel, gpu)
    values = {name: rng.integers(-2, 3, shape).astype(float) for name, shape in (
        ("a", (gemm.m, gemm.k)), ("b", (gemm.n, gemm.k)))}  # fmt: skip
    if gemm.dtype.kind == "float":
        values["a"][gemm.m // 3, -1] = np.nan if gemm.dtype.bits == 8 else np.inf
    scales = {"scale_a": np.float64(0.5), "scale_b": np.float64(4)} if gemm.scaled else {}
    memories = operands_of(made, values | scales)
    launch(made, text or made.text, memories, clusters, seed)
    with np.errstate(invalid="ignore"):
        expected = values["a"] @ values["b"].T * (2 if gemm.scaled else 1)
    kind, c = gemm.out_dtype.name, memories["c"]
    wanted = decode(encode(expected, kind), kind)
    np.testing.assert_array_equal(c.values, wanted)
    assert c.untouched()
