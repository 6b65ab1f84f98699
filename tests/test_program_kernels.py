"""Programs' kernels in their turns: what lies where is what the program means, and a file launches what a call does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recording_driver
import recording_runtime
from cuda_arrays import DlpackArray
from recording_driver import RecordingDriver
from test_launcher import ASKED, built

import legalsat as ls
from bench.search.program_exhaustive import cheapest
from bench.search.programs import given, numbers, programs, small
from legalsat.backends.composed import schedule
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.host.launcher import Launcher
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.composed.run import offsets, rounded
from legalsat.extract.kernels.encoded import decoded, encoded
from legalsat.operators import PRODUCT
from legalsat.plans.program_plan import ProgramPlan
from legalsat.runtime import ProgramKernel
from legalsat.runtime.program import AddressArgument, Image, Operand, Program, Recipe, Workspace, span_bytes
from legalsat.runtime.schedule import Schedule, Turn
from legalsat.runtime.views import Mismatch
from legalsat.tensor import Tensor, plain

HOST, STREAM = 0x300000000, 77
JUNK = 0xA5


def planned(name: str, *, little: bool = False, gpu: str = "h200") -> ProgramPlan:
    return ls.synthesize((programs(small) if little else programs())[name], gpu)


class Simulated:
    """A schedule's turns on numpy: each does what its program says to what lies at its addresses, call after call."""

    def __init__(self, made: Schedule) -> None:
        self.made = made
        self.kept = {one.name: self.junk(one) for one in made.workspaces if one.kept}
        self.ran_once = False
        self.laid_out: dict[str, Tensor] = {}  # which lies otherwise than the operand that it is made of

    @staticmethod
    def junk(space: Workspace) -> Any:
        return np.full(space.bytes, JUNK, np.uint8)

    def call(self, plan: ProgramPlan, given_numbers: list[Any]) -> list[Any]:
        memory = self.kept | {one.name: self.junk(one) for one in self.made.workspaces if not one.kept}
        memory |= {one.name: np.full(span_bytes(one.tensor), JUNK, np.uint8) for one in self.made.operands}
        for one, values in zip(self.made.inputs, given_numbers, strict=True):
            memory[one.name][self.at(one.tensor, 0)] = encoded(values, one.tensor.dtype.name)
        for turn in self.made.turns:
            if turn.once and self.ran_once:
                continue
            self.turn(plan, turn, memory)
        self.ran_once = True
        return [decoded(memory[one.name][self.at(one.tensor, 0)], one.tensor.dtype.name) for one in self.made.outputs]

    def turn(self, plan: ProgramPlan, turn: Turn, memory: dict[str, Any]) -> None:
        *reads, result = turn.program.operands
        found = []
        for one in reads:
            place = turn.places[one.name]
            tensor = self.laid_out.get(place.operand, one.tensor)
            found.append(decoded(memory[place.operand][self.at(tensor, place.offset)], tensor.dtype.name))
        place = turn.places[result.name]
        if "laid_out" in place.operand:
            self.laid_out[place.operand] = result.tensor
            made = found[0]
        else:
            step = next(one for one in plan.steps if turn.what == f"{one.writes.buffer}: {one.what}")
            made = found[0] @ found[1].T if step.plan.operator.term == PRODUCT else step.plan.operator.meaning(found[0])
        name = result.tensor.dtype.name
        memory[place.operand][self.at(result.tensor, place.offset)] = encoded(rounded(made, name), name)

    @staticmethod
    def at(tensor: Tensor, begin: int) -> Any:
        return begin + offsets(tensor)[..., None] + np.arange(tensor.dtype.bytes)


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize("name", list(programs()))
def test_turns_at_their_addresses_compute_the_program_at_every_call(name: str, gpu: str) -> None:
    """What is made once is not made again, and what others write in between does not touch it."""
    plan = planned(name, little=True, gpu=gpu)
    simulated = Simulated(schedule(plan, "cute"))
    constants = [one.constant for one in plan.operator.inputs]
    first = numbers(plan.operator, 1)
    for seed in (1, 2):
        fresh = numbers(plan.operator, seed)
        values = [old if fixed else new for old, new, fixed in zip(first, fresh, constants, strict=True)]
        meant = plan.operator.meaning(*values)
        for found, wanted in zip(
            simulated.call(plan, values), meant if isinstance(meant, tuple) else (meant,), strict=True
        ):
            assert np.array_equal(found, wanted)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[RecordingDriver]:
    found = recording_driver.build(tmp_path)
    yield found
    found.become()


def recorded(driver: RecordingDriver, begins: dict[str, int], made: Schedule) -> list[dict[str, Any]]:
    """What was asked, places in workspaces by their names."""
    spaces = [(begins[one.name], one) for one in made.workspaces]

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(one) for key, one in value.items() if key != "context"}
        if isinstance(value, list):
            return [named(one) for one in value]
        if not isinstance(value, int) or value < HOST - (1 << 31):
            return value
        return next((f"{one.name} + {value - at}" for at, one in spaces if at <= value < at + one.bytes), value)

    return [named(one) for one in driver.calls(*ASKED)]


def told_apart(made: Schedule) -> Schedule:
    """The schedule with a name of its own for each text's kernels, by which the driver knows their parameters."""
    turns = []
    for turn in made.turns:
        number = made.texts.index(turn.program.text)
        recipes = tuple(replace(one, entry=f"{one.entry}_{number}") for one in turn.program.recipes)
        turns.append(replace(turn, program=replace(turn.program, recipes=recipes)))
    return replace(made, turns=tuple(turns))


@pytest.mark.parametrize(
    "name", ["an odd k that is a result too", "two products of one tensor", "columns of a product", "zeros below"]
)
def test_a_file_asks_the_driver_what_a_call_asks_it(
    name: str, driver: RecordingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same kernels, maps, addresses and attributes in the same order, place by place."""
    made = told_apart(schedule(planned(name), "cute"))
    recording_runtime.learn(driver, *(turn.program for turn in made.turns))
    library = recording_runtime.build(made, tmp_path)
    addresses = [HOST + number * (1 << 28) for number in range(len(made.operands))]
    workspace, names = HOST - (1 << 30), [one.name for one in made.operands]
    pointer, stream = ctypes.c_void_p(workspace), ctypes.c_void_p(STREAM)
    driver.calls()
    if made.constants:
        constants = [ctypes.c_void_p(addresses[names.index(one.name)]) for one in made.constants]
        assert library.prepare(*constants, pointer, stream) == 0
    code = library.run(*map(ctypes.c_void_p, addresses), pointer, stream)
    assert code == 0, library.message(code)
    launcher = Launcher(made)
    ours = recorded(driver, {name: workspace + place for name, place in launcher.ways[0].places.items()}, made)

    monkeypatch.setattr("legalsat.runtime.kernel.image_of", lambda program, _: Image(b"\x7fELF", program.recipes))
    begins, end = dict[str, int](), 0x310000000000

    def take(_: object, size: int) -> tuple[int, int]:
        nonlocal end
        kept = not begins and bool(made.constants)
        begin, end = end, end + size
        for one in made.workspaces:
            if one.kept == kept:
                begins[one.name] = begin
                begin += -(-one.bytes // 256) * 256
        assert begin == end
        return end - size, 0

    monkeypatch.setattr("legalsat.runtime.memory.DriverMemory.take", take)
    arrays = [
        DlpackArray(address, plain(one.tensor.shape), one.tensor.dtype.name, plain(one.tensor.strides))
        for one, address in zip(made.operands, addresses, strict=True)
    ]
    results = tuple(arrays[len(made.inputs) :])
    out = results if len(results) > 1 else results[0]
    kernel = ProgramKernel(made, driver=driver)
    assert kernel(*arrays[: len(made.inputs)], out=out, stream=STREAM) == out
    theirs = recorded(driver, begins, made)
    assert sum(one["call"] == "cuLaunchKernelEx" for one in theirs) == len(launcher.launches) >= len(made.turns)
    assert ours == theirs


def test_what_a_call_is_given_is_checked(driver: RecordingDriver) -> None:
    plan = planned("an odd k that is a result too")
    kernel = ProgramKernel(schedule(plan, "cute"), driver=driver)
    arrays = [
        DlpackArray(HOST + number * (1 << 28), plain(one.tensor.shape), "bf16")
        for number, one in enumerate(kernel.schedule.operands)
    ]
    with pytest.raises(InvalidInput, match="give 3: x, w, d"):
        kernel(*arrays[:2])
    with pytest.raises(InvalidInput, match="out has 1 arrays; give 2: h, y"):
        kernel(*arrays[:3], out=arrays[3])
    with pytest.raises(Mismatch, match="y has shape"):
        kernel(*arrays[:3], out=(arrays[3], arrays[3]))
    with pytest.raises(Mismatch, match="h overlaps x"):
        kernel(*arrays[:3], out=(replace(arrays[3], address=arrays[0].address + 16), arrays[4]))
    with pytest.raises(Mismatch, match="y overlaps h"):
        kernel(*arrays[:3], out=(arrays[3], replace(arrays[4], address=arrays[3].address + 16)))
    with pytest.raises(InvalidInput, match="no torch with CUDA"):
        kernel(*arrays[:3])


def test_what_no_kernel_is_printed_for_is_said() -> None:
    plan = planned("an odd k between two products")
    with pytest.raises(InvalidInput, match="cute"):
        plan.emit("triton")
    with pytest.raises(InvalidInput, match="triton"):
        plan.compile("ptx")
    x, w = (ls.Value(name, Tensor((64, 64), "bf16")) for name in "xw")
    with pytest.raises(LegalSatError, match="a100"):
        ls.synthesize(ls.Program(y=x @ w.T), "a100")
    with pytest.raises(InvalidInput, match="matrix"):
        ls.Value("x", Tensor((2, 64, 64), "bf16"))


@pytest.mark.parametrize("name", ["an odd k between two products", "columns of a product"])
def test_products_that_cute_does_not_print_are_in_ptx(name: str) -> None:
    """Each step is printed by the first backend that can; a file holds PTX in strings, and CUDA C++ around it."""
    plan = planned(name, gpu="b200")
    products: list[Any] = [one.plan for one in plan.steps if one.plan.operator.term == PRODUCT]
    made = schedule(plan, "cute")
    builders = {"multiply" if "tcgen05.mma" in one.program.text else "move": one.program.builder for one in made.turns}
    assert builders["multiply"].endswith("ptx.program") and products
    text = plan.emit("cute")
    assert text.count("static char const ptx[] =") == len(
        {one.emit("ptx").partition(".version")[2] for one in products}
    )
    assert "triton" not in text and 'extern "C" int run(' in text
    assert ProgramKernel(made).schedule.texts == made.texts


def test_names_that_cplusplus_takes_are_others_in_a_file() -> None:
    at, new = (ls.Value(name, Tensor((64, 64), "bf16")) for name in ("at", "new"))
    text = ls.synthesize(ls.Program(stream=at @ new.T), "h200").emit("cute")
    assert (
        "int run(void const *array_1, void const *array_2, void *array_3, void *workspace, cudaStream_t stream)" in text
    )


def test_a_constant_result_is_written_at_every_call() -> None:
    """What is made of it once has a copy of its own, for the result's memory may be another one at each call."""
    q, p, v, x = (given(name, 64, 64, constant=name != "x") for name in "qpvx")
    made = q @ p.T
    for program in (ls.Program(y=made), ls.Program(y=made, z=(made @ v.T) @ x.T), ls.Program(y=q.concat(p))):
        plan = ls.synthesize(program, "h200")
        assert plan.cost.nanoseconds == cheapest(program, "h200") > 0
        simulated = Simulated(schedule(plan, "cute"))
        values = numbers(program, 1)
        for _ in range(2):
            meant = program.meaning(*values)
            wanted = meant if isinstance(meant, tuple) else (meant,)
            assert all(map(np.array_equal, simulated.call(plan, values), wanted))
            changed = numbers(program, 2)
            values = [
                one if constant.constant else other
                for one, other, constant in zip(values, changed, program.inputs, strict=True)
            ]


def of_two_relayouts() -> ProgramPlan:
    """A plan whose relayouts have parts of their texts in common, which these guard by macros."""
    x, y = given("x", 33, 17, strides=(25, 1)), given("y", 33, 33, strides=(41, 1))
    v = y.T @ y.T
    return ls.synthesize(ls.Program(r=x.T @ (v @ v.T)), "h200")


def halves(number: int) -> Program:
    """A program whose text has names in common with those of other numbers, and a part that is guarded by a macro."""
    text = f"""\
#include <cuda_fp16.h>
#ifndef PART
#define PART
#define TERM(i) (i + {number})
__device__ int part(int i) {{ return TERM(i) * {number}; }}
#endif

namespace plan {{
constexpr int term = {number};
}}

extern "C" __global__ void add(int const *x, int *y) {{
    static_assert(plan::term == {number} && TERM(0) == {number});
    y[threadIdx.x] = part(x[threadIdx.x]);
}}
"""
    end = Tensor((32,), "i32")
    arguments = (AddressArgument("x"), AddressArgument("y"))
    recipe = Recipe("add", (1, 1, 1), 32, 0, arguments)
    return Program(f"i + {number}", "sm_90a", text, (Operand("x", end), Operand("y", end)), (recipe,))


def test_texts_with_the_same_names_share_a_file(tmp_path: Path) -> None:
    """Each has its own kernel, constants, functions and macros, whatever the one before it calls by these names."""
    turns = tuple(
        Turn(halves(number), {"x": AddressArgument(x), "y": AddressArgument(y)}, False, f"turn {number}")
        for number, x, y in ((3, "x", "between"), (5, "between", "y"))
    )
    operands = turns[0].program.operands
    made = Schedule("two sums", "sm_90a", operands, 1, (Workspace("between", 128),), turns)
    text = cuda_file(made, "two texts", "sums")
    built(text, tmp_path, which=0)
    ctypes.CDLL(str(tmp_path / "libsums.so"))
    assert re.findall(r"return launch\((.*),$", text, re.MULTILINE) == [
        f"reinterpret_cast<void const *>(text_{number}::add_{number})" for number in (0, 1)
    ]


def test_a_file_of_a_program_compiles(tmp_path: Path) -> None:
    """Two products whose kernels have one name, and a relayout that is prepared."""
    built(planned("an odd k between two products").emit("cute"), tmp_path, which=0)
    library = ctypes.CDLL(str(tmp_path / "libprogram.so"))
    library.message.restype = ctypes.c_char_p
    assert library.workspace_bytes() > 500 * 4096 * 2 and library.message(-5) == b"y overlaps x"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*programs(), "two relayouts"])
def test_every_file_of_a_program_compiles(name: str, tmp_path: Path) -> None:
    plan = planned(name) if name in programs() else of_two_relayouts()
    built(plan.emit("cute"), tmp_path, which=0)
