"""Kernels called with arrays of a GPU that is not there: what the driver is asked, and what is refused before it is."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recording_driver
from cuda_arrays import DlpackArray, InterfaceArray
from recording_driver import RecordingDriver

import legalsat as ls
from legalsat.backends import first_of, program
from legalsat.runtime import Cache, Driver, DriverError, Image, Kernel, NoDriver
from legalsat.runtime import driver as driver_module
from legalsat.runtime.planned import kernel_for
from legalsat.runtime.program import (
    AddressArgument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
    Workspace,
)
from legalsat.targets import target
from legalsat.units.tensor_map import driver_value

A, B, C = 0x200000000, 0x220000000, 0x240000000
STREAM = 0x5555
LEGAL = ls.Gemm(300, 136, 200, "fp16")
KERNEL = ls.synthesize(LEGAL, "h200").kernel
READ = KERNEL.operands if KERNEL is not None else ()  # in the order of its maps
ODD = ls.Gemm(4096, 4096, 4095, "fp16")
# By a kernel that ptx prints, behind Triton's movements of both operands.
MOVED = ls.Gemm(ODD.m, ODD.n, ODD.k, "i8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> RecordingDriver:
    return recording_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(built: RecordingDriver) -> Iterator[RecordingDriver]:
    built.become()
    built._devices.clear()
    built.calls()
    yield built
    built.become()


@pytest.fixture(scope="module", autouse=True)
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("LEGALSAT_CACHE", str(tmp_path_factory.mktemp("images")))
        yield


@cache
def program_of(problem: Any, backend: str | None = None) -> Program:
    made: Program = program(ls.synthesize(problem, "h200"), backend)
    return made


def kernel_of(problem: ls.Gemm, driver: RecordingDriver) -> Kernel:
    """Return the kernel of a product that backend ptx prints, whose text says how large its parameters are."""
    made = program(ls.synthesize(problem, "h200", backend="ptx"), "ptx")
    for one in (made, *(first.program for first in made.before)):
        if ".entry" in one.text:
            driver.layout(one.text)
    return Kernel(made, driver=driver)


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible "
SMALL = ls.TensorMap("u16", (64, 8), (128,), (64, 8), swizzle="128B")
LARGE = ls.TensorMap("u16", (64, 1024), (128,), (64, 8), swizzle="128B")  # 128 KiB, as much as the quirk begins at


def kernel_of_maps(driver: RecordingDriver) -> Kernel:
    """Return a kernel whose first parameter is a map and whose second is a struct of three."""
    text = HEAD + ".entry maps(\n.param .align 64 .b8 x[128],\n.param .align 64 .b8 s[384]\n)\n{ ret; }\n"
    struct = MapsArgument((MapArgument("a", LARGE), MapArgument("b", SMALL, 64), MapArgument("c", LARGE)))
    recipe = Recipe("maps", (1, 1, 1), 32, 0, (MapArgument("a", SMALL), struct))
    operands = tuple(Operand(name, ls.Tensor((64,), "fp16")) for name in "abc")
    driver.layout(text)
    made = Program("a test", "sm_90a", text, operands, (recipe,), builder="legalsat.backends.ptx.program")
    return Kernel(made, driver=driver)


def vectors() -> tuple[Any, Any, Any]:
    return tuple(DlpackArray(address, (64,), "fp16") for address in (A, B, C))  # type: ignore[return-value]


def arrays_of(product: ls.Gemm, dtype: str = "fp16") -> tuple[Any, Any, Any]:
    a = DlpackArray(A, (product.m, product.k), dtype)
    b = InterfaceArray(B, (product.n, product.k), dtype)
    return a, b, DlpackArray(C, (product.m, product.n), product.out_dtype.name)


def test_a_product_is_launched_as_its_plan_says(driver: RecordingDriver) -> None:
    plan = ls.synthesize(LEGAL, "h200")
    assert plan.kernel is not None
    read = [{"A": A, "B": B}[name] for name in plan.kernel.operands]
    kernel, (a, b, c) = kernel_of(LEGAL, driver), arrays_of(LEGAL)
    assert kernel(a, b, out=c, stream=STREAM) is c
    asked = driver.calls()
    maps = [one for one in asked if one["call"] == "cuTensorMapEncodeTiled"]
    for one, tm, address in zip(maps, plan.tensor_maps, (*read, C), strict=True):
        assert one["address"] == address
        assert (one["global_dim"], one["global_stride"], one["box"]) == tuple(
            list(n) for n in (tm.global_dim, tm.global_stride, tm.box)
        )
        fields = ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill")
        assert one["enums"] == [driver_value(field, getattr(tm, field)) for field in fields]
    launch = asked[-1]
    shared = int(re.search(r"(\d+) bytes of dynamic", plan.emit("ptx"))[1])  # type: ignore[index]
    assert launch["call"] == "cuLaunchKernelEx" and launch["extra"] == 0
    assert (launch["grid"], launch["block"]) == ([plan.launch.programs, 1, 1], [32 * plan.launch.warps, 1, 1])
    assert (launch["shared"], launch["stream"], launch["context"]) == (shared, STREAM, 0x1000)
    of_maps, *numbers, pitch_c, scale_a, scale_b, _, _ = launch["parameters"]
    assert [one["address"] for one in of_maps] == [*read, C]
    extents = [LEGAL.n, LEGAL.m] if plan.kernel.swapped else [LEGAL.m, LEGAL.n]
    assert numbers[:3] == [*extents, LEGAL.k] and numbers[-3:] == [read[0], 2 * LEGAL.k, C]
    assert (pitch_c, scale_a, scale_b) == (LEGAL.n, 0, 0)
    allowed = [one for one in asked if one["call"] == "cuFuncSetAttribute"]
    assert [(one["attribute"], one["value"]) for one in allowed] == [("shared", shared)] * (shared > 48 * 1024)
    assert a.streams == c.streams == [STREAM], "the producer is told who waits"


def test_a_repeated_call_asks_for_the_launch_alone(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of(LEGAL, driver), arrays_of(LEGAL)
    kernel(a, b, out=c)
    first = driver.calls()[-1]
    kernel(a, b, out=c)
    assert driver.calls() == [first]
    kernel(a, replace(b, address=B + 4096), out=c)
    assert [one["call"] for one in driver.calls()] == ["cuTensorMapEncodeTiled"] * 3 + ["cuLaunchKernelEx"]


def test_more_addresses_than_are_remembered_are_packed_anew(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legalsat.runtime.loaded.MOST_PACKED", 3)
    kernel, (a, b, c) = kernel_of(LEGAL, driver), arrays_of(LEGAL)
    first = READ.index("A")  # of the maps
    for repeat in range(2):
        for i in range(5):
            kernel(replace(a, address=A + 4096 * i), b, out=c)
            launched = driver.calls("cuLaunchKernelEx")[-1]
            assert launched["parameters"][0][first]["address"] == A + 4096 * i, (repeat, i)


def test_maps_of_one_parameter_lie_one_behind_the_other(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of_maps(driver), vectors()
    for i in range(2):
        kernel(a, replace(b, address=B + 4096 * i), out=c)
        single, struct = driver.calls("cuLaunchKernelEx")[-1]["parameters"]
        assert single["address"] == A
        assert [one["address"] for one in struct] == [A, B + 4096 * i + 64, C]


def test_each_gpu_loads_the_image_for_itself(driver: RecordingDriver) -> None:
    kernel = kernel_of(LEGAL, driver)
    far = 1 << 40
    for base, device in ((0, 0), (far, 1), (0, 0)):
        a = DlpackArray(A + base, (LEGAL.m, LEGAL.k), "fp16", device=device)
        b = DlpackArray(B + base, (LEGAL.n, LEGAL.k), "fp16", device=device)
        kernel(a, b, out=DlpackArray(C + base, (LEGAL.m, LEGAL.n), "fp16", device=device))
    asked = driver.calls("cuModuleLoadData", "cuLaunchKernelEx")
    assert [(one["call"], one["context"]) for one in asked] == [
        ("cuModuleLoadData", 0x1000),
        ("cuLaunchKernelEx", 0x1000),
        ("cuModuleLoadData", 0x1001),
        ("cuLaunchKernelEx", 0x1001),
        ("cuLaunchKernelEx", 0x1000),
    ]


def test_operands_are_laid_out_anew_before_the_product_reads_them(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of(MOVED, driver), arrays_of(MOVED, "i8")
    names = [one.operand for one in kernel.program.before]
    assert sorted(names) == ["a", "b"]
    kernel.build()
    for one in kernel._before:
        assert one._image is not None
        driver.layout(f".entry {one._image.recipes[0].entry}(\n.param .u64 x,\n.param .u64 y)")
    kernel(a, b, out=c, stream=STREAM)
    asked = driver.calls("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    assert [one["call"] for one in asked] == [
        *["cuMemAllocAsync", "cuLaunchKernelEx"] * 2,
        "cuLaunchKernelEx",
        *["cuMemFreeAsync"] * 2,
    ]
    assert {one["stream"] for one in asked} == {STREAM}
    product, freed, rooms = asked[4], asked[5:], dict(zip(names, asked[:4:2], strict=True))
    for name, room, moved in zip(names, asked[:4:2], asked[1:4:2], strict=True):
        source, rows = {"a": (A, MOVED.m), "b": (B, MOVED.n)}[name]
        assert moved["parameters"] == [source, room["address"]]
        assert room["size"] == (rows - 1) * 4096 + 4095, "rows begin at multiples of 16 bytes, the last is short"
    plan = ls.synthesize(MOVED, "h200", backend="ptx")
    assert plan.kernel is not None
    read = [rooms[name.lower()]["address"] for name in plan.kernel.operands]
    assert [one["address"] for one in product["parameters"][0]] == [*read, C]
    assert {one["address"] for one in freed} == {room["address"] for room in rooms.values()}


def test_a_map_of_windows_is_encoded_as_the_plan_has_it(driver: RecordingDriver) -> None:
    tm = ls.TensorMap(
        dtype="bf16", address=0, global_dim=(16, 9, 14, 2), global_stride=(32, 288, 4032), element_stride=(1, 2, 2, 1),
        mode="im2col", lower_corner=(-1, -2), upper_corner=(0, -1), channels=16, pixels=64,
    )  # fmt: skip
    data = driver.device(0).encode(driver_module.map_arguments(tm), A)
    (call,) = driver.calls("cuTensorMapEncodeIm2col")
    assert (call["address"], int.from_bytes(data[:8], "little")) == (A, A)
    for name in ("global_dim", "global_stride", "lower_corner", "upper_corner", "channels", "pixels", "element_stride"):
        value = getattr(tm, name)
        assert call[name] == (list(value) if isinstance(value, tuple) else value), name


def test_a_persistent_product_is_launched_as_its_program_says(driver: RecordingDriver) -> None:
    """Its image is none, since nvcc may be missing; the driver that records would not look into it."""
    plan, (a, b, c) = ls.synthesize(ODD, "h200"), arrays_of(ODD)
    made = program(plan)
    kernel = Kernel(made, driver=driver)
    assert made == program(plan, "cute") and made.builder.endswith("cute.program")
    assert plan.kernel is not None and plan.kernel.relayouts == ("none", "transpose") and not plan.kernel.swapped
    (recipe,), (first,) = made.recipes, kernel._before
    (mover,) = first.program.recipes
    for one in (kernel, first):
        one._image = Image(b"\x7fELF", one.program.recipes)
    struct = recipe.arguments[0]
    assert isinstance(struct, MapsArgument)
    # The kernel's parameters, as persistent.cuh declares them, and two addresses that a relayout begins with.
    sized = [f".param .b8 m[{128 * len(struct.maps)}]", *[".param .u32 i"] * 6, *[".param .u64 i"] * 4]
    driver.layout(f".entry product({', '.join(sized)})")
    driver.layout(f".entry {mover.entry}(.param .u64 x, .param .u64 y)")
    kernel(a, b, out=c, stream=STREAM)
    room, moved, product, freed = driver.calls("cuMemAllocAsync", "cuLaunchKernelEx", "cuMemFreeAsync")
    assert moved["parameters"] == [B, room["address"]]
    assert (product["name"], product["dependent"], product["stream"]) == ("product", 1, STREAM)
    assert product["block"] == [plan.kernel.threads, 1, 1] and product["shared"] == plan.kernel.shared_bytes
    maps, m, n, k, *_, address_a, pitch_a, address_c, pitch_c = product["parameters"]
    of = {"a": A, "b": room["address"], "c": C}
    assert [one["address"] for one in maps] == [of[one.operand] + one.offset for one in struct.maps]
    assert {one.operand for one in struct.maps} == {"a", "b", "c"}
    assert (m, n, k) == (ODD.m, ODD.n, ODD.k)
    assert (address_a, pitch_a, address_c, pitch_c) == (A, 2 * ODD.k, C, ODD.n), "of A in bytes, of C in elements"
    assert freed["address"] == room["address"]


def wrong(array: Any, **changes: Any) -> Any:
    return replace(array, **changes)


REFUSED: dict[str, tuple[Callable[..., tuple[Any, Any, Any]], str]] = {
    "shape": (
        lambda a, b, c: (wrong(a, shape=(300, 199)), b, c),
        "a has shape (300, 199), this kernel is for (300, 200)",
    ),
    "strides": (
        lambda a, b, c: (a, wrong(b, strides=(208, 1)), c),
        "b has strides (208, 1), this kernel is for (200, 1), in elements; copy it",
    ),
    "dtype": (lambda a, b, c: (wrong(a, dtype="bf16"), b, c), "a holds bf16, this kernel is for fp16; convert it"),
    "address": (
        lambda a, b, c: (wrong(a, address=A + 8), b, c),
        "a starts 8 bytes past a multiple of 16, this kernel is for 0; copy it",
    ),
    "address of the result": (
        lambda a, b, c: (a, b, wrong(c, address=C + 2)),
        "c starts 2 bytes past a multiple of 16",
    ),
    "GPU": (lambda a, b, c: (a, b, wrong(c, device=1)), "c is on GPU 1; move it to GPU 0"),
    "host": (
        lambda a, b, c: (a, np.zeros((136, 200), np.float16), c),
        "b is in the host's memory; move it to a GPU",
    ),
    "overlap": (lambda a, b, c: (a, b, wrong(c, address=A + 16 * 200)), "c overlaps a; give it memory of its own"),
    "no result": (lambda a, b, c: (a, b, None), "pass out="),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_was_not_planned_for_is_refused(what: str, driver: RecordingDriver) -> None:
    change, message = REFUSED[what]
    kernel = kernel_of(LEGAL, driver)
    a, b, c = change(*arrays_of(LEGAL))
    with pytest.raises(ls.InvalidInput, match=re.escape(message)):
        kernel(a, b, out=c)
    assert not driver.calls("cuLaunchKernelEx")


def test_arguments_must_be_all_operands(driver: RecordingDriver) -> None:
    with pytest.raises(ls.InvalidInput, match="kernel was given 1 arrays; give 2: a, b"):
        kernel_of(LEGAL, driver)(arrays_of(LEGAL)[0])


def test_axes_of_one_element_may_have_any_stride(driver: RecordingDriver) -> None:
    one = ls.Gemm(1, 136, 200, "fp16")
    kernel, (a, b, c) = kernel_of(one, driver), arrays_of(one)
    kernel(wrong(a, strides=(7, 1)), b, out=c)
    assert driver.calls("cuLaunchKernelEx")


def test_another_gpu_is_refused_and_errors_are_named(driver: RecordingDriver) -> None:
    a, b, c = arrays_of(LEGAL)
    driver.become(capability=80)
    with pytest.raises(ls.LegalSatError, match="image is for sm_90a, GPU 0 is sm_80; plan for that"):
        kernel_of(LEGAL, driver)(a, b, out=c)
    driver.become(refusal=2)
    driver._devices.clear()
    with pytest.raises(DriverError, match=re.escape("cuLaunchKernelEx: CUDA_ERROR_OUT_OF_MEMORY (2); free memory")):
        kernel_of(LEGAL, driver)(a, b, out=c)


@pytest.mark.parametrize(("version", "clears"), [(13010, True), (13020, False)])
def test_maps_of_small_tensors_lose_the_bit_that_old_drivers_set(
    version: int, clears: bool, driver: RecordingDriver
) -> None:
    small, large = LEGAL, ls.Gemm(512, 512, 512, "fp16")
    driver.become(version=version)
    words = []
    for product in (small, large):
        a, b, c = arrays_of(product)
        kernel_of(product, driver)(a, b, out=c)
        words.append({one["word"] for one in driver.calls("cuLaunchKernelEx")[-1]["parameters"][0]})
    ones = 2**64 - 1
    least = ones - 2**21 if clears else ones
    assert words == [{least}, {ones}]
    kernel_of_maps(driver)(*vectors()[:2], out=vectors()[2])
    single, struct = driver.calls("cuLaunchKernelEx")[-1]["parameters"]
    assert single["word"] == least, "a map that is a parameter by itself"
    assert [one["word"] for one in struct] == [ones, least, ones], "maps of one parameter, each by its own size"


def test_launches_carry_clusters_and_other_attributes(driver: RecordingDriver) -> None:
    tensor = ls.Tensor((64,), "fp32")
    recipe = Recipe(
        "two",
        (8, 4, 2),
        96,
        0,
        (AddressArgument("x", 4), NumberArgument(7, "u32"), AddressArgument("room"), NumberArgument(-1, "i64")),
        cluster=(4, 4, 1),
        dependent=True,
        cooperative=True,
    )
    text = HEAD + ".entry two(\n.param .u64 x,\n.param .u32 n,\n.param .u64 r,\n.param .u64 i)\n{ ret; }\n"
    operands, spaces = (Operand("x", tensor), Operand("y", tensor)), (Workspace("room", 512, True),)
    made = Program("a test", "sm_90a", text, operands, (recipe,), spaces, builder="legalsat.backends.ptx.program")
    driver.layout(text)
    kernel = Kernel(made, driver=driver)
    kernel(InterfaceArray(A, (64,), "fp32"), out=InterfaceArray(C, (64,), "fp32"), stream=STREAM)
    asked = driver.calls()
    launch = next(one for one in asked if one["call"] == "cuLaunchKernelEx")
    assert (launch["grid"], launch["block"], launch["cluster"]) == ([8, 4, 2], [96, 1, 1], [4, 4, 1])
    assert (launch["dependent"], launch["cooperative"], launch["scheduling"]) == (1, 1, 1)
    room = next(one for one in asked if one["call"] == "cuMemAllocAsync")["address"]
    assert launch["parameters"] == [A + 4, 7, room, 2**64 - 1]
    zeroed = next(one for one in asked if one["call"] == "cuMemsetD8Async")
    assert (zeroed["address"], zeroed["value"], zeroed["size"], zeroed["stream"]) == (room, 0, 512, STREAM)
    assert asked.index(zeroed) < asked.index(launch)
    assert ("any cluster", 1) in [(one["attribute"], one["value"]) for one in asked if "attribute" in one]


def test_a_producers_stream_is_waited_for(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of(LEGAL, driver), arrays_of(LEGAL)
    kernel(a, replace(b, stream=0x77), out=c, stream=STREAM)
    asked = [one for one in driver.calls() if one["call"] in ("cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernelEx")]
    assert [(one["call"], one["stream"]) for one in asked] == [
        ("cuEventRecord", 0x77),
        ("cuStreamWaitEvent", STREAM),
        ("cuLaunchKernelEx", STREAM),
    ]


@pytest.mark.parametrize("struct", [False, True])
def test_threads_may_call_one_kernel_at_once(struct: bool, driver: RecordingDriver) -> None:
    kernel = kernel_of_maps(driver) if struct else kernel_of(LEGAL, driver)
    a, b, c = vectors() if struct else arrays_of(LEGAL)
    failures: list[BaseException] = []

    def call(number: int) -> None:
        try:
            for _ in range(20):
                kernel(replace(a, address=A + 4096 * number), b, out=replace(c, address=C + (number << 20)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    asked = driver.calls("cuLaunchKernelEx", "cuModuleLoadData")
    assert not failures and sum(one["call"] == "cuModuleLoadData" for one in asked) == 1
    launched = [one["parameters"][int(struct)] for one in asked if "parameters" in one]
    found = [tuple(one["address"] for one in maps) for maps in launched]
    assert len(found) == 160
    read = ("A", "B") if struct else READ
    for n in range(8):
        addresses = {"A": A + 4096 * n, "B": B + 64 * struct}
        assert (*(addresses[name] for name in read), C + (n << 20)) in found
    assert len(set(found)) == 8


def test_a_movement_runs_by_the_compiled_kernel(driver: RecordingDriver) -> None:
    plan = ls.synthesize(ls.Transpose(ls.Tensor((256, 128), "fp16")), "h200", means=("tma",))
    kernel = Kernel(program(plan), driver=driver).build()
    assert kernel._image is not None
    (recipe,) = kernel._image.recipes
    sizes = [8 if isinstance(one, AddressArgument) else 128 for one in recipe.arguments]
    sizes = [
        int(one.type[1:]) // 8 if isinstance(one, NumberArgument) else size
        for one, size in zip(recipe.arguments, sizes, strict=True)
    ]
    parameters = ",\n".join(f".param .align 64 .b8 p[{n}]" if n == 128 else f".param .u{8 * n} p" for n in sizes)
    driver.layout(f".entry {recipe.entry}(\n{parameters})")
    y = DlpackArray(C, (128, 256), "fp16")
    assert kernel(DlpackArray(A, (256, 128), "fp16"), out=y) is y
    (launch,) = driver.calls("cuLaunchKernelEx")
    maps = [one["address"] for one in launch["parameters"] if isinstance(one, dict)]
    assert maps == [A, C]
    numbers = [one for one in launch["parameters"] if not isinstance(one, dict)]
    assert numbers == [256, 128, 128, 1, 128, 256, 256, 1, 0, 0], "extents and strides of both maps, then no scratch"
    assert launch["block"] == [32 * plan.launch.warps, 1, 1] and launch["shared"] >= plan.cost.shared_bytes // 2


def test_without_a_driver_a_call_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = str(tmp_path / "libcuda.so.1")
    with pytest.raises(NoDriver, match=r"no NVIDIA driver was found .*; run where a GPU is"):
        Driver(missing)
    made = ls.synthesize(LEGAL, "h200").compile("ptx")  # needs no GPU
    monkeypatch.setattr("legalsat.runtime.kernel.the_driver", lambda: Driver(missing))
    a, b, c = arrays_of(LEGAL)
    with pytest.raises(NoDriver):
        made(a, b, out=c)


def test_backends_are_asked_in_order_and_by_name() -> None:
    with pytest.raises(ls.InvalidInput, match="backend is 'host'; give one of triton, cute"):
        ls.synthesize(ls.Tensor((64, 64), "bf16"), "h200").compile("host")  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidInput, match="backend is 'host'; give one of cute, ptx, triton"):
        ls.synthesize(LEGAL, "h200").compile("host")  # type: ignore[arg-type]
    plan = ls.synthesize(ls.Gemm(64, 64, 64, "e4m3", out_dtype="bf16"), "b200")
    foreign = replace(plan, kernel=replace(plan.kernel, store="columns"))
    order = r"; cute: cute has no row .*; ptx: ptx has no row for StoreColumns .*; triton: triton has no row"
    with pytest.raises(ls.LegalSatError, match="no backend prints this plan" + order):
        program(foreign)
    with pytest.raises(ls.LegalSatError, match="no backend runs this plan" + order):
        foreign.compile()
    with pytest.raises(ls.LegalSatError, match="plan is open in M"):
        ls.synthesize(ls.Tensor((ls.Dim("M", max=512), 64), "bf16"), "h200").compile("triton")


def refuse(message: str) -> Callable[..., Any]:
    def refusing(*_: Any) -> Any:
        raise ls.LegalSatError(message)

    return refusing


NO_NVCC = "no nvcc was found; install CUDA's compiler"


@pytest.fixture
def without_nvcc(driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch) -> RecordingDriver:
    """Return the driver that records, as the process's one where there is no nvcc."""
    monkeypatch.setattr("legalsat.runtime.kernel.the_driver", lambda: driver)
    for name in ("nvcc", "nvcc_version"):
        monkeypatch.setattr(f"legalsat.backends.cute.compile.{name}", refuse(NO_NVCC))
    return driver


def test_without_nvcc_the_next_backend_makes_a_product(without_nvcc: RecordingDriver) -> None:
    kernel, reason = kernel_for(LEGAL, target("h200"), 1)
    assert (kernel.backend, reason) == ("ptx", f"cute: {NO_NVCC}")
    assert repr(kernel) == "<Kernel: gemm of fp16, 300 x 136 x 200, for sm_90a, by ptx>"
    assert [one["context"] for one in without_nvcc.calls("cuModuleLoadData")] == [0x1001], "loaded on that GPU"
    assert ls.synthesize(LEGAL, "h200").compile().backend == "ptx", "plans fall through the same table"


def test_without_any_compiler_the_driver_assembles(
    without_nvcc: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legalsat.backends.ptx.program._said_by", lambda _: "the driver")
    kernel, _ = kernel_for(LEGAL, target("h200"), 0)
    assert kernel._image is not None
    assert (kernel.backend, kernel._image.code) == ("ptx", kernel.program.text.encode())
    assert without_nvcc.calls("cuModuleLoadData")


@pytest.mark.usefixtures("without_nvcc")
def test_the_last_backend_and_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legalsat.backends.ptx.program.program_of", refuse("ptx has no kernel"))
    small = ls.Gemm(64, 64, 128, "fp16")  # whose program of ptx no other test keeps
    kernel, reason = kernel_for(small, target("h200"), 0)
    assert (kernel.backend, reason) == ("triton", f"cute: {NO_NVCC}; ptx: ptx has no kernel")
    monkeypatch.setattr("legalsat.backends.triton.program.version", refuse("no triton"))
    with pytest.raises(ls.LegalSatError, match=r"; cute: no nvcc .*; ptx: ptx has no kernel; triton: no triton$"):
        kernel_for(small, target("h200"), 0)


def test_what_the_driver_refuses_is_left_to_the_next_backend(
    without_nvcc: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver does that is older than nvcc."""
    young, load = b"of a younger nvcc", driver_module.Device.load

    def loaded(device: driver_module.Device, image: bytes) -> int:
        if image == young:
            raise DriverError("cuModuleLoadData", 200, "CUDA_ERROR_INVALID_IMAGE")
        return load(device, image)

    monkeypatch.setattr("legalsat.backends.cute.program.tools_of", lambda _: "nvcc")
    monkeypatch.setattr("legalsat.backends.cute.program.image_of", lambda made: Image(young, made.recipes))
    monkeypatch.setattr(driver_module.Device, "load", loaded)
    kernel, reason = kernel_for(LEGAL, target("h200"), 0)
    assert (kernel.backend, reason) == ("ptx", "cute: cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200)")


def test_the_first_that_can_is_taken_and_those_before_it_say_why() -> None:
    asked = []

    def make(name: str) -> str:
        asked.append(name)
        if name in {"one", "three"}:
            raise ls.LegalSatError("not here")
        if name == "two":
            raise ls.InvalidInput("too small")
        return name.upper()

    assert first_of(("four", "one"), make, "runs") == ("FOUR", "") and asked == ["four"]
    assert first_of(("one", "two", "three", "four"), make, "runs") == ("FOUR", "one, three: not here; two: too small")
    with pytest.raises(ls.LegalSatError, match=r"^no backend runs this plan; one, three: not here; two: too small$"):
        first_of(("one", "two", "three"), make, "runs")


def test_gpus_that_are_not_there_and_old_drivers_are_named(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of(LEGAL, driver), arrays_of(LEGAL)
    with pytest.raises(NoDriver, match="there is no GPU 7, the driver sees 2; name another one"):
        kernel(replace(a, device=7), b, out=c)
    for index in (2, -1):
        with pytest.raises(NoDriver, match=f"there is no GPU {index}"):
            kernel.load(index)
    with pytest.raises(NoDriver, match=r"libc.so.6 lacks cuLaunchKernelEx, .*; install a driver of CUDA 12 or later"):
        Driver("libc.so.6")


def test_a_loaded_kernel_asks_for_the_launch_alone(driver: RecordingDriver) -> None:
    kernel, (a, b, c) = kernel_of(MOVED, driver), arrays_of(MOVED, "i8")
    assert kernel.load() is kernel
    assert len(driver.calls("cuModuleLoadData")) == 1 + len(kernel.program.before), "relayouts too"
    kernel(a, b, out=c)
    assert not driver.calls("cuModuleLoadData")


def test_caches_are_shared_by_name_of_what_makes_images(tmp_path: Path) -> None:
    """The second kernel of a program finds the first one's image."""
    made = program_of(LEGAL, "ptx")
    first = Kernel(made, cache=Cache(tmp_path)).build()
    (entry,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    second = Kernel(made, cache=Cache(tmp_path)).build()
    assert second._image == first._image
    other = Image(b"something else", made.recipes)
    key = entry.name
    Cache(tmp_path).write(key, other.to_bytes())
    assert Kernel(made, cache=Cache(tmp_path)).build()._image == other, "it was read, not made again"
    entry.write_bytes(entry.read_bytes()[:-3])
    assert Kernel(made, cache=Cache(tmp_path)).build()._image == first._image, "a damaged one is made again"
