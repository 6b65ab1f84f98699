"""Persistent kernels of products as text: the plan's numbers stand in it, and what nvcc makes of it waits for sums,
keeps the asynchronous contract, and is launched with what its signature names."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import recording_driver
from cuda_arrays import DlpackArray

import legalsat as ls
from legalsat.backends.cute.compile import OPTIONS, CompilationFailed, cubin_of, headers, nvcc
from legalsat.backends.cute.product import emit
from legalsat.backends.cute.program import program_for
from legalsat.backends.cute.rows import functions
from legalsat.errors import LegalSatError
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.kernel_program import printed_program
from legalsat.extract.kernels.product_kernels import best_kernel, product_kernels
from legalsat.extract.kernels.product_maps import result_map
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import Parts, Tiles
from legalsat.program.pipeline import Advance, At, Relinquish, Write
from legalsat.runtime import Cache, Kernel
from legalsat.runtime.program import MapsArgument, NumberArgument
from legalsat.targets import target

H200 = target("h200")
PRODUCTS = {
    "boxes": Gemm(4096, 4096, 4096, "bf16"),
    "rows": Gemm(4096, 4095, 4096, "fp16"),
    "tiles": Gemm(4096, 4096, 4095, "bf16", b=ls.Tensor((4096, 4095), "bf16", (1, 4096))),
    "registers": Gemm(1111, 3333, 777, "bf16"),
    "sums": Gemm(16, 4096, 4095, "bf16"),
    "scaled": Gemm(4096, 4095, 4096, "e4m3", scaled=True),
    "slides": Gemm(
        *(1000, 6150, 12000, "bf16"),
        a=ls.Tensor((1000, 12000), "bf16", (1, 1000)),
        b=ls.Tensor((6150, 12000), "bf16", (1, 6150)),
    ),
}
BYTES = {"Maps const": 384, "int": 4, "unsigned long long": 8, "long long": 8, "float const *": 8}  # of parameters


def numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", text)}


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_text_has_the_kernels_numbers(name: str) -> None:
    gemm = PRODUCTS[name]
    for _, kernel in product_kernels(gemm, H200, 6):
        found = numbers(emit(gemm, kernel))
        assert (found["tile_m"], found["tile_n"], found["tile_k"]) == kernel.tile
        assert (found["stages"], found["split"], found["warpgroups"]) == (
            kernel.stages,
            kernel.split,
            kernel.warpgroups,
        )
        raw = sum(lines.bytes for lines in kernel.lines if lines is not None and any(kernel.aligned))
        if kernel.realign == "woven":  # of 64 lines for each box's rows, which are 64 to 192, 64 bytes more
            wide = max(count for count in (1, 2, 3) if kernel.tile[0] // 64 % count == 0)
            raw += kernel.tile[0] // 64 // wide * 64 * 64
        assert found["stage_bytes"] == sum(kernel.loaded) * kernel.tile[2] * gemm.dtype.bytes + raw
        assert found["summed"] == kernel.tile[1] + (8 if kernel.realign == "sums" else 0)
        assert found["a_boxes"] * found["a_box_bytes"] == found["a_bytes"]
        assert found["b_boxes"] * found["b_box_bytes"] == found["b_bytes"]


def test_one_text_serves_all_products_of_a_class() -> None:
    one, other = Gemm(4096, 4096, 4096, "bf16"), Gemm(8192, 1024, 2048, "bf16")
    kernel = best_kernel(one, H200)
    assert kernel is not None
    first, second = program_for(one, kernel, H200), program_for(other, kernel, H200)
    assert first.text == second.text
    assert first.recipes != second.recipes


@pytest.mark.parametrize("name", PRODUCTS)
def test_recipes_name_every_block_and_map(name: str) -> None:
    gemm = PRODUCTS[name]
    for _, kernel in product_kernels(gemm, H200, 12):
        recipe, *behind = program_for(gemm, kernel, H200).recipes
        assert len(behind) == (kernel.slices > 1)
        blocks = kernel.cluster[0] * kernel.cluster[1] * kernel.split
        assert recipe.cluster == (blocks, 1, 1)
        assert recipe.grid[0] % blocks == 0
        assert recipe.threads == kernel.threads
        maps = recipe.arguments[0]
        assert isinstance(maps, MapsArgument)
        of_a, of_b = (8 if one else 1 for one in kernel.aligned)
        of_a = {"none": of_a, "woven": 8}.get(kernel.realign, kernel.phases)
        of_b = kernel.phases if kernel.realign == "sums" else of_b
        of_c = kernel.phases if kernel.realign == "tiles" else 1
        assert len(maps.maps) == of_a + of_b + of_c


def test_boxes_of_c_have_the_swizzle_that_their_rows_fill() -> None:
    """As the kernel writes them: a granule moves by the number of its line of 128 bytes."""
    gemm, seen = Gemm(2048, 2048, 512, "bf16"), set()
    for _, kernel in product_kernels(gemm, H200):
        if kernel.store != "tma":
            continue
        tensor_map = result_map(gemm, kernel)[0].map
        span = 2 * tensor_map.box[0]
        if span in seen:
            continue
        seen.add(span)
        image = ls.smem_image(tensor_map, (0, 0))
        for row in range(16):
            for number in range(span // 16):
                at = row * span + (number ^ row // (128 // span) % (span // 16)) * 16
                assert image[at] == row * gemm.n * 2 + number * 16
    assert seen == {128, 64, 32}


def test_sums_slide_where_they_are_predicted_to_be_fastest() -> None:
    kernel = best_kernel(PRODUCTS["slides"], H200)
    assert kernel is not None and (kernel.realign, kernel.phases) == ("sums", 4)  # rows of 6150 elements: 6 mod 8
    text = emit(PRODUCTS["slides"], kernel)
    assert text.count("slide(cta, accumulators, lane);") == 1 and text.count("tile.lines = lines_of(") == 1
    assert f"MMA_64x{kernel.tile[1] + 8}x16" in text


def test_costs_grow_with_the_product() -> None:
    kernel = best_kernel(PRODUCTS["boxes"], H200)
    assert kernel is not None
    sizes = (1024, 2048, 4096, 8192)
    times = [kernel_cost(Gemm(m, 4096, 4096, "bf16"), kernel, H200).nanoseconds for m in sizes]
    assert times == sorted(times)
    constant = Gemm(4096, 4096, 4095, "bf16", constant_b=True)
    changing = Gemm(4096, 4096, 4095, "bf16")
    relaid = next(k for _, k in product_kernels(changing, H200) if k.relayouts[1] != "none" and not k.swapped)
    assert kernel_cost(constant, relaid, H200).nanoseconds < kernel_cost(changing, relaid, H200).nanoseconds


def test_a_plan_prints_its_kernel_and_keeps_it(tmp_path: Path) -> None:
    plan = ls.synthesize(PRODUCTS["tiles"], "h200")
    assert plan.kernel == best_kernel(PRODUCTS["tiles"], H200)
    text = plan.emit("cute")
    assert "int run(void const *a, void const *b, void *c, void *workspace, cudaStream_t stream)" in text
    assert 'extern "C" __global__' in text
    plan.save(tmp_path / "plan.json")
    assert ls.GemmPlan.load(tmp_path / "plan.json").kernel == plan.kernel


def test_a_plan_may_hold_any_of_its_kernels_and_no_other(tmp_path: Path) -> None:
    plan = ls.synthesize(PRODUCTS["tiles"], "h200")
    assert plan.kernel is not None
    other = next(one for _, one in product_kernels(PRODUCTS["tiles"], H200)[1:] if one.realign == "tiles")
    replace(plan, kernel=other).save(tmp_path / "other.json")
    assert ls.GemmPlan.load(tmp_path / "other.json").kernel == other
    for wrong in (replace(other, stages=other.stages + 1), replace(other, phases=2), replace(other, realign="none")):
        replace(plan, kernel=wrong).save(tmp_path / "wrong.json")
        with pytest.raises(ls.LegalSatError, match="is none that computes"):
            ls.GemmPlan.load(tmp_path / "wrong.json")


def test_a_plan_without_such_a_kernel_says_so() -> None:
    plan = ls.synthesize(Gemm(256, 256, 256, "bf16"), "b200")
    with pytest.raises(ls.LegalSatError, match=r"cute has no row for FindColumns .* and ptx has one"):
        plan.emit("cute")


def disassembler() -> str | None:
    triton = pytest.importorskip("triton")
    place = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    return str(place) if place.exists() else shutil.which("nvdisasm")


def kernel_of(name: str) -> ProductKernel:
    for _, kernel in product_kernels(PRODUCTS[name], H200):
        kind = kernel.realign if kernel.realign != "none" else kernel.store
        if name in {kind, kernel.store, "scaled"}:
            return kernel
    raise AssertionError(name)


def require_nvcc() -> None:
    try:
        nvcc()
        headers()
    except CompilationFailed as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", ["rows", "sums", "scaled"])
def test_no_sum_is_read_before_the_multiplications_are_waited_for(name: str, tmp_path: Path) -> None:
    """The assembler once moved conversions of sums ahead of the wait, and the result was wrong without a word."""
    require_nvcc()
    tool, gemm, kernel = disassembler(), PRODUCTS[name], kernel_of(name)
    if tool is None:
        pytest.skip("no nvdisasm")
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin_of(emit(gemm, kernel), "sm_90a", cache=Cache(None)))
    lines = subprocess.run([tool, str(path)], capture_output=True, text=True, check=True).stdout.splitlines()
    under_way, multiplied, early = False, 0, []
    for line in lines:
        if "GMMA" in line:
            under_way, multiplied = True, multiplied + 1
        elif "WARPGROUP.DEPBAR.LE gsb0, 0x0" in line:
            under_way = False
        elif under_way and ("F2FP" in line or "F2F." in line or "FMUL" in line):
            early.append(line)
    assert multiplied
    assert not early
    sums = kernel.tile[0] * kernel.tile[1] // (kernel.threads - 128)  # of a thread
    scaled = sum("FMUL" in line for line in lines)
    assert scaled == (sums + 1 if gemm.scaled else 0), "each sum once, and the scales with each other"


def test_stores_by_rows_are_global_and_the_asynchronous_contract_holds(tmp_path: Path) -> None:
    """With the numbers of a launch; the threads of a block are the launch's, too, and nvcc says only their maximum."""
    require_nvcc()
    gemm = Gemm(1024, 1023, 1024, "bf16", out_dtype="fp32")
    kernel = next(one for _, one in product_kernels(gemm, H200) if one.store == "rows" and one.cluster_blocks == 1)
    recipe = program_for(gemm, kernel, H200).recipes[-1]
    source, target = tmp_path / "kernel.cu", tmp_path / "kernel.ptx"
    source.write_text(emit(gemm, kernel))
    command = [nvcc(), *OPTIONS, "-ptx", "-arch=sm_90a", "-I", str(headers()), "-o", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    text = target.read_text()
    stores = {one[1] for one in re.finditer(r"\bst\.(?:async\.)?(\w+)", text)}
    assert stores == {"global", "shared"}
    arguments = {f"product_param_{i}": one for i, one in enumerate(recipe.arguments)}
    numbers = {name: int(one.value) for name, one in arguments.items() if isinstance(one, NumberArgument)}
    found = check_ptx(text, parameters=numbers, block=kernel.threads, grid=recipe.grid[0])
    assert found.proven, (found.findings, found.unproven)


def test_what_the_table_cannot_print_is_named() -> None:
    kernel = best_kernel(PRODUCTS["boxes"], H200)
    assert kernel is not None
    program = printed_program(kernel, 2)
    assert functions(program).count("write_c<") > 0
    with pytest.raises(LegalSatError, match="cute has no row for Relinquish"):
        functions(replace(program, setup=(Relinquish(),)))
    consumer, producer = program.roles
    late = tuple(op for op in consumer.body if not isinstance(op, Tiles))
    one = Parts(0, 1, (Write("C{i}", At("stored")), Advance("stored")))
    with pytest.raises(LegalSatError, match=r"cannot tell the stage of C\{i\}: a turn takes 1 of 2"):
        functions(replace(program, roles=(replace(consumer, body=(Tiles((one,)), *late)), producer)))


def test_scales_are_passed_where_the_signature_names_them(tmp_path: Path) -> None:
    driver = recording_driver.build(tmp_path)
    a, b, c, scale_a, scale_b = 0x200000000, 0x220000000, 0x240000000, 0x260000004, 0x280000008
    for scaled in (True, False):
        gemm = Gemm(256, 512, 1024, "e4m3", scaled=scaled)
        kernel = next(one for _, one in product_kernels(gemm, H200) if not one.swapped)
        made = program_for(gemm, kernel, H200)
        listed = re.search(r"product\(__grid_constant__ (.*?)\) \{", made.text, re.DOTALL)
        assert listed
        pairs = [re.fullmatch(r"(.*\W)(\w+)", " ".join(one.split())) for one in listed[1].split(",")]
        signature = [(BYTES[one[1].strip()], one[2]) for one in pairs if one]
        parameters = ", ".join(f".param .b8 {name}[{size}]" for size, name in signature)
        text = f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry product({parameters}) {{ ret; }}"
        driver.layout(text)
        stub = replace(made, text=text, builder="legalsat.backends.ptx.program")
        scales = [DlpackArray(one, (), "fp32") for one in (scale_a, scale_b)] if scaled else []
        operands = DlpackArray(a, (256, 1024), "e4m3"), DlpackArray(b, (512, 1024), "e4m3"), *scales
        Kernel(stub, driver=driver, cache=Cache(None))(*operands, out=DlpackArray(c, (256, 512), "bf16"))
        launch = driver.calls("cuLaunchKernelEx")[-1]
        passed = dict(zip((name for _, name in signature), launch["parameters"], strict=True))
        assert (passed["m"], passed["n"], passed["k"], passed["a"], passed["c"]) == (256, 512, 1024, a, c)
        assert (passed["scale_a"], passed["scale_b"]) == ((scale_a, scale_b) if scaled else (0, 0))


def test_a_scaled_product_is_planned_kept_and_refused_where_scales_are_not_multiplied(tmp_path: Path) -> None:
    gemm = Gemm(256, 512, 1024, "e5m2", out_dtype="fp32", scaled=True)
    plan = ls.synthesize(gemm, "h200")
    plan.save(tmp_path / "plan.json")
    assert ls.GemmPlan.load(tmp_path / "plan.json").operator == gemm
    assert [one.name for one in program_for(gemm, kernel_of("scaled"), H200).operands] == [
        "a", "b", "scale_a", "scale_b", "c",
    ]  # fmt: skip
    shared = ls.synthesize(Gemm(8192, 8192, 8192, "e5m2", scaled=True), "h200")  # among the CTAs of a cluster
    with pytest.raises(ls.LegalSatError, match="triton has no row for"):
        shared.emit("triton")
    with pytest.raises(ls.LegalSatError, match="scale e4m3 or e5m2 alone"):
        Gemm(256, 512, 1024, "bf16", scaled=True)


@pytest.mark.parametrize("extents", [(0, 8, 8), (8, 0, 8), (8, 8, 0)])
def test_products_without_elements_or_terms_are_refused(extents: tuple[int, int, int]) -> None:
    """So that kernels may count on a tile, and on a stage of it, along every axis."""
    with pytest.raises(ls.LegalSatError, match=" is 0; give at least 1"):
        Gemm(*extents, "bf16")


@pytest.mark.parametrize("name", ["boxes", "rows"])
def test_the_assembler_neither_spills_nor_makes_multiplications_wait_for_each_other(name: str, tmp_path: Path) -> None:
    require_nvcc()
    kernel = product_kernels(PRODUCTS[name], H200)[0][1]
    assert kernel.overlapped, "whose registers are the scarcest"
    source = tmp_path / "kernel.cu"
    source.write_text(emit(PRODUCTS[name], kernel), encoding="utf-8")
    command = [nvcc(), *OPTIONS, "-cubin", "-Xptxas", "-v", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-I", str(headers()), "-o", str(tmp_path / "kernel.cubin"), str(source)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "serializ" not in said
