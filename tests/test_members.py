"""Batches of products and groups of rows: what kernels compute, element by element, and what is refused."""

from __future__ import annotations

import random
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import legalsat as ls
from legalsat.analyses.copy_engine import FILLED, smem_image
from legalsat.backends.cute.compile import CompilationFailed, nvcc
from legalsat.backends.cute.program import image_of, program_for
from legalsat.errors import LegalSatError
from legalsat.extract.check.recheck_gemm import recheck_gemm
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.kernels.product_maps import maps_of, most_clusters
from legalsat.operators.grouped import require_ends
from legalsat.operators.members import members_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain

H200 = target("h200")


def some_kernels(gemm: ls.Gemm, count: int, seed: int) -> list[ProductKernel]:
    """Return the first kernel of a product, and some others."""
    listed = [kernel for _, kernel in islice(each_kernel(gemm, H200), 2000)]
    return [listed[0], *random.Random(seed).sample(listed, min(count, len(listed)))]


def whole_numbers(gemm: ls.Gemm, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return A and B, alike for all members that share them."""
    drawn = np.random.default_rng(seed)
    found = []
    for tensor in (gemm.a, gemm.b):
        values = drawn.integers(-3, 4, plain(tensor.shape)).astype(np.float64)
        for axis, step in enumerate(tensor.strides[:-2]):
            if step == 0:
                values[...] = np.take(values, [0], axis=axis)
        found.append(values)
    return found[0], found[1]


BATCHES = {
    "legal": ls.Gemm(72, 80, 96, "bf16", batch=3),
    "a single member": ls.Gemm(72, 80, 96, "bf16", batch=1),
    "rows in phases": ls.Gemm(72, 80, 95, "bf16", batch=3),
    "members in phases": ls.Gemm(37, 41, 33, "bf16", batch=3),
    "odd rows of C": ls.Gemm(70, 81, 64, "bf16", batch=(2, 2)),
    "heads": ls.Gemm(
        *(64, 64, 64, "bf16"),
        batch=(2, 3),
        a=ls.Tensor((2, 3, 64, 64), "bf16", (64 * 3 * 64, 64, 3 * 64, 1)),
        c=ls.Tensor((2, 3, 64, 64), "bf16", (64 * 3 * 64, 64, 3 * 64, 1)),
    ),
    "one B for all": ls.Gemm(64, 64, 72, "bf16", batch=4, b=ls.Tensor((4, 64, 72), "bf16", (0, 1, 64))),
    "one A for some": ls.Gemm(64, 72, 64, "fp16", batch=(2, 2), a=ls.Tensor((2, 2, 64, 64), "fp16", (4096, 0, 64, 1))),
    "8 bits": ls.Gemm(64, 48, 128, "e4m3", batch=2),
    "columns of C": ls.Gemm(64, 48, 64, "bf16", batch=2, c=ls.Tensor((2, 64, 48), "bf16", (3072, 1, 64))),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_exact(name: str) -> None:
    gemm, drawn = BATCHES[name], random.Random(name)
    a, b = whole_numbers(gemm, len(name))
    for kernel in some_kernels(gemm, 4, len(name)):
        plan = GemmPlan(gemm, H200, kernel)
        require_contract(plan.pipeline, H200)
        found = interpret(plan, a, b, clusters=drawn.choice((0, 1, 3)), seed=drawn.randrange(99))
        assert np.array_equal(found, a @ b.swapaxes(-1, -2)), kernel


ENDS = {
    "some rows each": [70, 71, 199, 250, 300],
    "empty ones": [0, 0, 128, 128, 300],
    "all in one": [0, 300, 300, 300, 300],
    "rows of nobody": [5, 64, 65, 66, 280],
    "ends that fall": [70, 60, 71, 250, 249],
    "ends beyond": [-7, 10, 1000, 2**31 - 1, 20],
    "nothing": [0, 0, 0, 0, 0],
}
GROUPED = {
    "boxes": ls.GroupedGemm(300, 80, 96, "bf16", groups=5),
    "odd columns": ls.GroupedGemm(300, 81, 96, "bf16", groups=5),
    "odd k": ls.GroupedGemm(300, 48, 95, "bf16", groups=5, b=ls.Tensor((5, 48, 95), "bf16", (48 * 95, 1, 48))),
    "8 bits": ls.GroupedGemm(300, 64, 128, "e4m3", groups=5),
}


def across(rows: int, k: int, dtype: str = "bf16") -> ls.Tensor:
    return ls.Tensor((rows, k), dtype, (1, rows))


ALONG_K = {
    "gradients of weights": ls.GroupedGemm(
        80, 96, 300, "bf16", groups=5, along="k", a=across(80, 300), b=across(96, 300)
    ),
    "odd rows": ls.GroupedGemm(81, 97, 300, "bf16", groups=5, along="k", a=across(81, 300), b=across(97, 300)),
    "k side by side": ls.GroupedGemm(72, 136, 300, "fp16", groups=5, along="k", b=across(136, 300, "fp16")),
    "sums as they are": ls.GroupedGemm(200, 33, 300, "bf16", groups=5, along="k", out_dtype="fp32"),
    "C apart": ls.GroupedGemm(
        *(64, 64, 300, "bf16"),
        groups=5,
        along="k",
        a=across(64, 300),
        b=across(64, 300),
        c=ls.Tensor((5, 64, 64), "bf16", (64 * 72, 72, 1)),
    ),
    "8 bits": ls.GroupedGemm(72, 136, 300, "e4m3", groups=5, along="k", a=ls.Tensor((72, 300), "e4m3", (304, 1))),
    "8 bits across k": ls.GroupedGemm(
        80, 96, 300, "e5m2", groups=5, along="k", a=across(80, 300, "e5m2"), b=across(96, 300, "e5m2")
    ),
    "32 bits": ls.GroupedGemm(72, 136, 300, "fp32", groups=5, along="k"),
}

REALIGNED = {
    "boxes": ls.GroupedGemm(300, 152, 95, "bf16", groups=5),
    "C of 32 bits": ls.GroupedGemm(300, 152, 201, "fp16", groups=5, out_dtype="fp32"),
    "operands of 32 bits": ls.GroupedGemm(300, 136, 95, "fp32", groups=5),
    "odd columns": ls.GroupedGemm(300, 129, 200, "bf16", groups=5, b=ls.Tensor((5, 129, 200), "bf16", (26000, 201, 1))),
    "matrices that begin anywhere": ls.GroupedGemm(300, 151, 95, "bf16", groups=5),
}


def routed(drawn: random.Random, rows: int, groups: int) -> list[int]:
    """Return ends of groups at random, of which many are empty or have one row."""
    sizes = [drawn.choice((0, 1, 1, drawn.randrange(20), drawn.randrange(rows // 2))) for _ in range(groups)]
    ends = [sum(sizes[: i + 1]) for i in range(groups)]
    return [min(end, rows) for end in ends]


@pytest.mark.parametrize("name", REALIGNED)
def test_groups_are_columns_of_the_transpose_where_b_is_realigned_in_registers(name: str) -> None:
    gemm, drawn = REALIGNED[name], random.Random(name)
    a, b = whole_numbers(gemm, len(name))
    ways: dict[object, list[ProductKernel]] = {}
    for _, kernel in each_kernel(gemm, H200):
        if kernel.realign == "registers":
            assert kernel.swapped and kernel.cuts == "n"
            ways.setdefault((kernel.buffers, kernel.warpgroups), []).append(kernel)
    assert len(ways) > 2
    for kernels in ways.values():
        kernel, ends = drawn.choice(kernels), routed(drawn, 300, 5)
        plan = GemmPlan(gemm, H200, kernel)
        require_contract(plan.pipeline, H200)
        found = interpret(plan, a, b, ends=ends, clusters=drawn.choice((1, 2, 3)), seed=drawn.randrange(99))
        assert np.array_equal(found, gemm.meaning(a, b, np.array(ends))[: len(found)]), (kernel, ends)


@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_exact_wherever_they_end(name: str) -> None:
    gemm, drawn = GROUPED[name], random.Random(name)
    a, b = whole_numbers(gemm, len(name))
    kernels = some_kernels(gemm, 4, len(name))
    for ends, kernel in zip(ENDS.values(), kernels * 2, strict=False):
        plan = GemmPlan(gemm, H200, kernel)
        require_contract(plan.pipeline, H200)
        found = interpret(plan, a, b, ends=ends, clusters=drawn.choice((1, 2, 3)), seed=drawn.randrange(99))
        assert np.array_equal(found, gemm.meaning(a, b, np.array(ends))[: len(found)]), (kernel, ends)
        assert len(found) == min(300, max(0, *ends))


@pytest.mark.parametrize("name", ALONG_K)
def test_groups_along_k_are_exact_wherever_they_end(name: str) -> None:
    """What no group has, and what its neighbours have, may be no number, and no product counts it."""
    gemm, drawn = ALONG_K[name], random.Random(name)
    a, b = whole_numbers(gemm, len(name))
    a, b = np.sign(a), np.sign(b)  # so that sums fit the narrow types
    for ends, kernel in zip(ENDS.values(), some_kernels(gemm, 6, len(name)), strict=True):
        plan = GemmPlan(gemm, H200, kernel)
        require_contract(plan.pipeline, H200)
        last = min(300, max(0, *ends))
        for one in (a, b) if name in {"8 bits", "32 bits"} else (a,):
            spoilt = one.copy()
            spoilt[:, last:] = np.nan
            spoilt[:, [k for k in (drawn.choice(ends), drawn.choice(ends) - 1) if 0 <= k < last]] = np.nan
            operands = (spoilt, b) if one is a else (a, spoilt)
            found = interpret(plan, *operands, ends=ends, clusters=drawn.choice((0, 1, 3)), seed=drawn.randrange(99))
            assert np.array_equal(found, gemm.meaning(*operands, np.array(ends)), equal_nan=True), (kernel, ends)
            assert not np.isnan(found).all() or not ends[-1]


SCALED = {
    "rows of groups": ls.GroupedGemm(300, 64, 128, "e4m3", groups=5, scaled="rows"),
    "groups": ls.GroupedGemm(300, 65, 128, "e5m2", groups=5, scaled="groups", out_dtype="fp16"),
    "operands": ls.GroupedGemm(300, 64, 127, "e4m3", groups=5, scaled=True),
    "rows": ls.Gemm(200, 72, 1024, "e4m3", scaled="rows"),
    "rows at any byte": ls.Gemm(33, 99, 260, "e4m3", scaled="rows", out_dtype="fp32"),
    "rows of a batch": ls.Gemm(130, 72, 259, "e4m3", scaled="rows", batch=(2, 3)),
}


@pytest.mark.parametrize("name", SCALED)
def test_sums_are_multiplied_by_the_scales_of_their_rows_and_columns(name: str) -> None:
    gemm, drawn = SCALED[name], random.Random(name)
    a, b = (np.sign(one) for one in whole_numbers(gemm, len(name)))
    numbers = np.random.default_rng(len(name))
    scales = [2.0 ** numbers.integers(-3, 4, plain(one.shape)) for one in gemm.others.values()]
    for ends, kernel in zip(ENDS.values(), some_kernels(gemm, 6, len(name)), strict=True):
        plan = GemmPlan(gemm, H200, kernel)
        said = ends if isinstance(gemm, ls.GroupedGemm) else []
        clusters, seed = drawn.choice((0, 1, 3)), drawn.randrange(99)
        found = interpret(plan, a, b, scales=scales, ends=said, clusters=clusters, seed=seed)
        expected = gemm.meaning(a, b, *scales, *([np.array(said)] if said else []))
        assert np.array_equal(found, expected[: len(found)]), kernel


def test_the_meaning_of_scales_is_element_by_element() -> None:
    for name, gemm in SCALED.items():
        a, b = whole_numbers(gemm, 3)
        numbers = np.random.default_rng(3)
        scales = [numbers.integers(1, 9, plain(one.shape)).astype(np.float64) for one in gemm.others.values()]
        ends = [70, 71, 199, 250, 300] if isinstance(gemm, ls.GroupedGemm) else []
        found = gemm.meaning(a, b, *scales, *([np.array(ends)] if ends else []))
        for at in zip(*(numbers.integers(0, n, 50) for n in found.shape), strict=True):
            *member, row, column = map(int, at)
            group = next((i for i, end in enumerate(ends) if row < end), 0)
            of_a = {"groups": (group,), "operands": ()}.get(name, (*member, row))
            of_b = {"groups": (group,), "operands": (), "rows of groups": (group, column)}.get(name, (*member, column))
            first, second = a[(*member, row)], b[(group, column) if ends else (*member, column)]
            assert found[at] == (first @ second) * (scales[0][of_a] * scales[1][of_b])


def test_other_backends_name_scales_of_rows() -> None:
    plan = ls.synthesize(SCALED["rows"], "h200")
    of_triton = "(?:Write of turned tiles|Release to several CTAs)"  # whichever the first kernel has first
    for backend, lacking in (("ptx", "UseSums by scales of rows"), ("triton", of_triton)):
        with pytest.raises(LegalSatError, match=f"{backend} has no row for {lacking} in the program"):
            plan.emit(backend)  # type: ignore[arg-type]


def test_the_meaning_of_groups_along_k_is_number_by_number() -> None:
    gemm = ALONG_K["odd rows"]
    a, b = whole_numbers(gemm, 5)
    for ends in ENDS.values():
        expected = np.zeros((5, 81, 97))
        for k in range(300):
            group = next((i for i in range(5) if k < ends[i]), None)
            if group is not None:
                expected[group] += np.outer(a[:, k], b[:, k])
        assert np.array_equal(gemm.meaning(a, b, np.array(ends)), expected)


def test_boxes_of_groups_along_k_end_where_a_group_does() -> None:
    gemm = ALONG_K["gradients of weights"]
    kernel = next(one for one in some_kernels(gemm, 60, 1) if not one.clipped)
    for name, operand, parts in zip("AB", kernel.operands, kernel.k_parts, strict=True):
        extent = {"A": 80, "B": 96}[operand]
        (wrapping,) = maps_of(gemm, kernel)[name]
        assert (wrapping.map.global_dim[0], wrapping.map.box[1:], wrapping.offset) == (extent, (64 // parts, 1, 1), 0)
        *_, behind, back = wrapping.map.global_stride
        for begin, end, row in ((0, 10, 3), (37, 300, 262), (299, 300, 0)):
            line = 2**30 - (end - begin) + row
            address = (line + end) * behind + 2**30 * back
            assert address % 2**64 == (begin + row) * 2 * extent
            image = smem_image(wrapping.map, (0, line, end, 2**30))
            inside = image.reshape(64 // parts, -1)[:, 0] != FILLED
            assert inside.sum() == min(64 // parts, end - begin - row)
    assert ls.synthesize(gemm, "h200").derivation[-1].law == "read_by_wrapping_maps"


def test_the_meaning_of_groups_is_row_by_row() -> None:
    gemm = GROUPED["odd columns"]
    a, b = whole_numbers(gemm, 5)
    for ends in ENDS.values():
        found = gemm.meaning(a, b, np.array(ends))
        for row in range(300):
            group = next((i for i in range(5) if row < ends[i]), None)
            expected = np.zeros(81) if group is None else b[group] @ a[row]
            assert np.array_equal(found[row], expected)


def test_a_box_of_a_group_never_reaches_its_neighbour() -> None:
    """Without the windows, C's map lets a tail overwrite the rows behind it: the interpreter sees it."""
    gemm = GROUPED["boxes"]
    kernel = next(one for one in some_kernels(gemm, 60, 1) if one.store == "tma")
    (windows,) = maps_of(gemm, kernel)["C"]
    assert windows.map.global_dim == (80, 16, 301)
    assert windows.offset == -16 * 160


def test_axes_that_all_operands_walk_alike_are_one() -> None:
    def members(batch: tuple[int, ...], **strides: tuple[int, ...]) -> tuple[int, ...]:
        shapes = {"A": (8, 16), "B": (24, 16), "C": (8, 24)}
        tensors = {name: ls.Tensor((*batch, *shape), "bf16", strides.get(name)) for name, shape in shapes.items()}
        return members_of(batch, tensors).extents

    assert members((2, 3, 4)) == (24,)
    assert members((2, 1, 4), B=(0, 0, 0, 16, 1)) == (8,)
    assert members((2, 3, 4), B=(0, 0, 384, 16, 1)) == (6, 4)
    assert members((2, 3), A=(128, 256, 16, 1)) == (2, 3)
    assert members((1, 1)) == ()
    with pytest.raises(ls.InvalidInput, match="4 axes that do not merge"):
        members((2, 2, 2, 2), A=(128, 0, 256, 0, 16, 1))


def test_more_members_take_more_time_and_as_many_tiles() -> None:
    times = []
    for count in (1, 4, 64):
        gemm = ls.Gemm(1024, 1024, 256, "bf16", batch=count)
        time, kernel = next(each_kernel(gemm, H200))
        times.append(time)
        along_m, along_n = kernel.clusters(1024, 1024)
        assert most_clusters(gemm, kernel) == count * along_m * along_n
    assert times[0] < times[1] < times[2] < 70 * times[0]


@pytest.mark.parametrize("gemm", [BATCHES["heads"], GROUPED["boxes"], ALONG_K["odd rows"]], ids=str)
def test_plans_are_printed_saved_and_checked_again(gemm: ls.Gemm, tmp_path: Path) -> None:
    plan = ls.synthesize(gemm, "h200")
    assert isinstance(plan, ls.GemmPlan)
    assert plan.kernel is not None
    plan.save(tmp_path / "plan.json")
    assert ls.GemmPlan.load(tmp_path / "plan.json") == plan
    recheck_gemm(plan)
    assert str(gemm) in str(plan)
    assert ls.explain(gemm, "h200").way.startswith(str(plan.kernel))
    text = plan.emit("cute")
    assert ("find_groups(cta)" in text) == bool(plan.kernel.groups)
    with pytest.raises(LegalSatError, match="cute"):
        plan.emit("triton")
    assert "wgmma.mma_async" in plan.emit("ptx")
    assert "tcgen05.mma" in ls.synthesize(gemm, "b200").emit("ptx")
    assert ls.explain(gemm, "b200").legal == ls.explain(gemm, "h200").legal


def test_texts_compile() -> None:
    try:
        nvcc()
    except CompilationFailed as error:
        pytest.skip(str(error))
    groups = GROUPED["boxes"], GROUPED["odd columns"], ALONG_K["gradients of weights"], SCALED["rows of groups"]
    for gemm in (BATCHES["heads"], *groups):
        _, kernel = next(each_kernel(gemm, H200))
        assert image_of(program_for(gemm, kernel, H200)).code[:4] == b"\x7fELF"


def test_all_of_a_class_share_a_text() -> None:
    texts = set()
    for groups, m, n in product((3, 60), (100, 5000), (512, 2048)):
        gemm = ls.GroupedGemm(m, n, 512, "bf16", groups=groups)
        kernel = next(one for _, one in each_kernel(gemm, H200) if one.tile == (128, 128, 64) and not one.ping_pong)
        texts.add(program_for(gemm, kernel, H200).text)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: ls.Gemm(8, 8, 8, "bf16", batch=0), "batch"),
        (lambda: ls.Gemm(8, 8, 8, "bf16", batch="four"), "batch"),  # type: ignore[arg-type]
        (lambda: ls.Gemm(ls.Dim("M"), 8, 8, "bf16", batch=2), "open in a batch"),
        (lambda: ls.Gemm(8, 8, 8, "bf16", batch=2, a=ls.Tensor((8, 8), "bf16")), "give a tensor of bf16"),
        (lambda: ls.Gemm(8, 8, 8, "bf16", batch=2, c=ls.Tensor((2, 8, 8), "bf16", (0, 8, 1))), "lie on each other"),
        (lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=0), "groups"),
        (lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=10**6), "groups"),
        (lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=2, along="n"), "along"),  # type: ignore[arg-type]
        (
            lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=2, along="k", c=ls.Tensor((2, 8, 8), "bf16", (0, 8, 1))),
            "lie on each other",
        ),
        (lambda: ls.Gemm(8, 8, 8, "e4m3", scaled="groups"), "scaled"),
        (lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=2, scaled="rows"), "e4m3 or e5m2"),
        (lambda: ls.GroupedGemm(8, 8, 8, "e4m3", groups=2, along="k", scaled="rows"), "no scales"),
        (lambda: ls.GroupedGemm(ls.Dim("M"), 8, 8, "bf16", groups=2), "open"),
        (lambda: ls.GroupedGemm(8, 8, 8, "bf16", groups=2, b=ls.Tensor((8, 8), "bf16")), "give a tensor of bf16"),
        (lambda: GROUPED["boxes"].meaning(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1)), "give arrays"),
    ],
)
def test_what_makes_no_sense_is_refused(build: object, says: str) -> None:
    with pytest.raises(LegalSatError, match=says):
        build()  # type: ignore[operator]


def test_ends_that_the_host_knows_are_refused_where_the_gpu_would_clip_them() -> None:
    for name, ends in ENDS.items():
        if name in {"ends that fall", "ends beyond"}:
            with pytest.raises(ls.InvalidInput, match="ends at"):
                require_ends(ends, 300)
        else:
            require_ends(ends, 300)
