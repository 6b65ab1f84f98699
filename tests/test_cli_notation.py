"""How the command line writes shapes, strides and tensor maps, read back."""

from __future__ import annotations

from dataclasses import fields

import pytest
from cli_runs import LEGAL_MAP, Run, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.cli import arguments as cli_arguments
from legalsat.dims import Extent, times

numbers = st.integers(1, 2**40)
names = st.sampled_from(["K", "M", "batch", "_", "h_2", "X"])  # none with an x, which separates


@st.composite
def dims(draw: st.DrawFn) -> ls.Dim:
    multiple, low, span = draw(st.integers(1, 64)), draw(st.integers(1, 1000)), draw(st.integers(0, 1000))
    return ls.Dim(draw(names), multiple, low, low + multiple + span)


def written(extent: int | ls.Dim) -> str:
    if isinstance(extent, int):
        return str(extent)
    return f"{extent.name}%{extent.multiple_of}:{extent.min}..{extent.max}"


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a loaded machine
@given(st.lists(numbers | dims(), min_size=1, max_size=6), st.sampled_from("x,"))
def test_shape_reads_what_is_written(extents: list[int | ls.Dim], separator: str) -> None:
    assert cli_arguments.shape(separator.join(map(written, extents))) == tuple(extents)


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("K", ls.Dim("K")),
        ("K%8", ls.Dim("K", multiple_of=8)),
        ("K:..9", ls.Dim("K", max=9)),
        ("K:9..", ls.Dim("K", min=9)),
        ("max%4:8..", ls.Dim("max", multiple_of=4, min=8)),
    ],
)
def test_facts_of_a_dim_may_be_left_out(text: str, dim: ls.Dim) -> None:
    assert cli_arguments.shape(f"7,{text}") == (7, dim)


@given(st.lists(st.tuples(st.integers(0, 99), st.lists(st.sampled_from("MK"), max_size=3)), min_size=1, max_size=4))
def test_strides_read_products_of_dims(strides: list[tuple[int, list[str]]]) -> None:
    extents = cli_arguments.shape("M,K%8")
    by_name: dict[str, Extent] = dict(zip("MK", extents, strict=True))
    expected: list[Extent] = []
    for factor, letters in strides:
        product: Extent = factor
        for letter in letters:
            product = times(product, by_name[letter])
        expected.append(product)
    text = ",".join("*".join([str(factor), *letters]) for factor, letters in strides)
    assert cli_arguments.strides(text, extents) == tuple(expected)


@given(
    st.integers(1, 5).flatmap(
        lambda rank: st.builds(
            ls.TensorMap,
            dtype=st.sampled_from(["bf16", "u8", 9, 77]),
            global_dim=st.tuples(*[st.integers(0, 2**33)] * rank),
            global_stride=st.tuples(*[st.integers(0, 2**41)] * (rank - 1)),
            box=st.tuples(*[st.integers(0, 300)] * rank),
            element_stride=st.tuples(*[st.integers(0, 9)] * rank),
            address=st.integers(0, 2**64 - 1),
            swizzle=st.sampled_from(["none", "128B", 3, 50]),
            interleave=st.sampled_from(["none", "32B"]),
        )
    )
)
def test_tensor_map_reads_what_is_written(tm: ls.TensorMap) -> None:
    words = []
    for field in fields(tm):
        value = getattr(tm, field.name)
        words.append(f"{field.name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
    assert cli_arguments.tensor_map_of(words) == tm


def test_numbers_of_a_tensor_map_may_be_hexadecimal_or_negative() -> None:
    words = "mode=im2col dtype=bf16 global_dim=64,8,8,2 global_stride=0x80,1024,8192 address=0xA0 channels=64 pixels=64"
    tm = cli_arguments.tensor_map_of([*words.split(), "lower_corner=-1,-2", "upper_corner=-3,4"])
    assert (tm.address, tm.global_stride[0]) == (160, 128)
    assert (tm.lower_corner, tm.upper_corner) == ((-1, -2), (-3, 4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(option=st.sampled_from(["--shape", "--strides", "--tile", "--align"]), text=st.text(max_size=12))
def test_no_text_crashes_the_parser(option: str, text: str, capsys: Run) -> None:
    words = {"--shape": "MxK", "--dtype": "bf16", option: text}
    code, out, err = run(capsys, "explain", *(f"{key}={value}" for key, value in words.items()), "--target=none")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(field=st.sampled_from([f.name for f in fields(ls.TensorMap)]), text=st.text(max_size=12))
def test_no_text_crashes_a_tensor_map(field: str, text: str, capsys: Run) -> None:
    words = dict(word.split("=") for word in LEGAL_MAP) | {field: text}
    assignments = [f"{key}={value}" for key, value in words.items()]
    code, out, err = run(capsys, "explain", "--target=h200", "--tensor-map", *assignments)
    assert (code == 2) == err.startswith("error: ")
    assert (code in (0, 1)) == bool(out)
