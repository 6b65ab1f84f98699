"""A CUtensorMap's bytes: read and written as the driver of an H200 wrote them, and refused where it writes none."""

from __future__ import annotations

import ctypes
import io
import json
import struct
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.cli import main
from legalsat.units.blobs import MAP_BYTES
from legalsat.units.tensor_map_bytes import BLACKWELL_BIT, DTYPE_CODES, FIELDS, decode_with_notes

DATA = Path(__file__).parent / "data" / "tensor_map_blobs.npz"
WORDS = struct.Struct("<16Q")
IM2COL_FIELDS = {"channels", "pixels", "lower_corner", "upper_corner"}


@pytest.fixture(scope="module")
def measured() -> list[tuple[ls.TensorMap, bytes]]:
    """Return what the driver was asked for, and the bytes that it wrote."""
    with np.load(DATA) as data:
        return [(asked(r), b.tobytes()) for r, b in zip(data["requests"], data["blob"], strict=True)]


def asked(request: npt.NDArray[Any]) -> ls.TensorMap:
    rank = int(request["rank"])
    return ls.TensorMap(
        dtype=int(request["dtype"]),
        global_dim=tuple(request["global_dim"][:rank]),
        global_stride=tuple(request["global_stride"][: rank - 1]),
        box=tuple(request["box"][:rank]),
        element_stride=tuple(request["element_stride"][:rank]),
        address=int(request["address"]),
        interleave=int(request["interleave"]),
        swizzle=int(request["swizzle"]),
        l2_promotion=int(request["l2_promotion"]),
        oob_fill=int(request["oob_fill"]),
    )


@pytest.fixture(scope="module")
def example(measured: list[tuple[ls.TensorMap, bytes]]) -> tuple[ls.TensorMap, bytes]:
    return next((tm, blob) for tm, blob in measured if tm.rank == 3 and tm.swizzle == "64B" and tm.address)


def changed(blob: bytes, word: int, bits: int) -> bytes:
    words = list(WORDS.unpack(blob))
    words[word] ^= bits
    return WORDS.pack(*words)


# Against the driver


def test_every_measured_map_is_read_as_it_was_asked_for(measured: list[tuple[ls.TensorMap, bytes]]) -> None:
    assert len(measured) == 3000
    for tm, blob in measured:
        assert ls.decode(blob) == tm


def test_every_measured_map_is_written_bit_for_bit(measured: list[tuple[ls.TensorMap, bytes]]) -> None:
    for tm, blob in measured:
        assert ls.encode_blob(tm) == blob


def test_measured_maps_differ_in_all_that_is_read(measured: list[tuple[ls.TensorMap, bytes]]) -> None:
    """Each enum value, rank and axis occurs, so that none of the fields is read by guess."""
    maps = [tm for tm, _ in measured]
    assert {tm.dtype for tm in maps} == set(DTYPE_CODES)
    assert {tm.rank for tm in maps} == {1, 2, 3, 4, 5}
    for name, count in (("interleave", 3), ("swizzle", 4), ("l2_promotion", 4), ("oob_fill", 2)):
        assert len({getattr(tm, name) for tm in maps}) == count
    for axis in range(5):
        for name in ("global_dim", "box", "element_stride"):
            assert len({getattr(tm, name)[axis] for tm in maps if tm.rank > axis}) >= 2


def test_no_two_fields_of_a_map_share_bits() -> None:
    for other in ({"box"}, IM2COL_FIELDS):
        taken = [
            (word, bit)
            for field in FIELDS
            if field.name not in other
            for word, low in field.places
            for bit in range(low, low + field.width)
        ]
        assert len(taken) == len(set(taken))
        assert max(bit for _, bit in taken) < 64


def test_any_changed_bit_is_another_map_or_none(example: tuple[ls.TensorMap, bytes]) -> None:
    tm, blob = example
    others = 0
    for bit in range(8 * MAP_BYTES):
        other = changed(blob, bit // 64, 1 << bit % 64)
        if bit in (64, 64 + 21):
            assert ls.decode(other).mode == "im2col" if bit == 64 else ls.decode(other) == tm
            continue
        try:
            read = ls.decode(other)
        except ls.LegalSatError as error:
            assert "these are not a CUtensorMap's bytes" in str(error)
        else:
            others += 1
            assert read != tm and ls.encode_blob(read) == other
    assert others > 64 + 3 * 32, "at least the address and the extents"


STRIDE = st.integers(0, 2**36 - 1).map(lambda units: 16 * units)


@st.composite
def maps(draw: st.DrawFn) -> ls.TensorMap:
    rank = draw(st.integers(1, 5))

    def each(numbers: st.SearchStrategy[int], count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(numbers, min_size=count, max_size=count)))

    return ls.TensorMap(
        dtype=draw(st.sampled_from(sorted(DTYPE_CODES))),
        global_dim=each(st.integers(1, 2**32)),
        global_stride=each(STRIDE, rank - 1),
        box=each(st.integers(1, 256)),
        element_stride=each(st.integers(1, 8)),
        address=draw(st.integers(0, 2**64 - 1)),
        interleave=draw(st.integers(0, 2)),
        swizzle=draw(st.integers(0, 3)),
        l2_promotion=draw(st.integers(0, 3)),
        oob_fill=draw(st.integers(0, 1)),
    )


@settings(deadline=None)
@given(maps())
def test_what_is_written_is_read(tm: ls.TensorMap) -> None:
    assert ls.decode(ls.encode_blob(tm)) == tm


@settings(deadline=None)
@given(st.binary(min_size=MAP_BYTES, max_size=MAP_BYTES))
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    with pytest.raises(ls.InvalidInput, match="not a CUtensorMap's bytes"):
        ls.decode(data)


# As people have them


def numbers(blob: bytes, bits: int) -> list[int]:
    return np.frombuffer(blob, f"<u{bits // 8}").tolist()  # type: ignore[no-any-return]


def lines_of(words: list[int], of: Callable[[int], str]) -> str:
    pairs = [words[i : i + 2] for i in range(0, len(words), 2)]
    return "".join(of(16 * i) + "\t" + "\t".join(f"{w:#018x}" for w in pair) + "\n" for i, pair in enumerate(pairs))


FORMS: dict[str, Callable[[bytes], Any]] = {
    "bytearray": bytearray,
    "memoryview": memoryview,
    "every other byte": lambda b: np.repeat(np.frombuffer(b, np.uint8), 2)[::2],
    "array of bytes": lambda b: np.frombuffer(b, np.uint8),
    "array of signed bytes": lambda b: np.frombuffer(b, np.int8),
    "array of words": lambda b: np.frombuffer(b, np.uint64).reshape(2, 8),
    "array of words of 32 bits": lambda b: np.frombuffer(b, np.uint32),
    "bytes in an array of wide numbers": lambda b: np.array(list(b), np.int64),
    "structure": lambda b: np.frombuffer(b, "V128"),
    "ctypes": (ctypes.c_uint64 * 16).from_buffer_copy,
    "cuda.bindings": lambda b: SimpleNamespace(opaque=numbers(b, 64)),
    "list of bytes": list,
    "list of words": lambda b: numbers(b, 64),
    "list of signed words": lambda b: np.frombuffer(b, np.int64).tolist(),
    "list of words of 32 bits": lambda b: tuple(numbers(b, 32)),
    "hex": bytes.hex,
    "HEX": lambda b: b.hex().upper(),
    "0x": lambda b: "0x" + b.hex(),
    "colons": lambda b: b.hex(":"),
    "underscores": lambda b: b.hex("_", 4),
    "wrapped": lambda b: "\n".join(textwrap.wrap(b.hex(" ", 2), 60)),
    "C bytes": lambda b: "{" + ", ".join(f"0x{n:02x}u" for n in b) + "};",
    "C words": lambda b: "[" + ", ".join(f"0x{n:x}ULL" for n in numbers(b, 64)) + "]",
    "words of 32 bits": lambda b: " ".join(f"0X{n:08X}" for n in numbers(b, 32)),
    "gdb": lambda b: lines_of(numbers(b, 64), lambda at: f"0x7fffffffd{at:03x}:"),
    "gdb with symbols": lambda b: lines_of(numbers(b, 64), lambda at: f"0x7fffffffd{at:03x} <map+{at}>:"),
    "xxd without its text": lambda b: "".join(f"{i:08x}: {b[i : i + 16].hex(' ', 2)}\n" for i in range(0, 128, 16)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_bytes_is_read(example: tuple[ls.TensorMap, bytes], form: str) -> None:
    tm, blob = example
    assert ls.decode(FORMS[form](blob)) == tm


def test_the_map_of_cuda_bindings_is_read(example: tuple[ls.TensorMap, bytes]) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    cu_map = driver.CUtensorMap()
    cu_map.opaque = [driver.cuuint64_t(word) for word in numbers(example[1], 64)]
    assert ls.decode(cu_map) == example[0]


def test_the_hardwares_half_is_enough(example: tuple[ls.TensorMap, bytes]) -> None:
    tm, blob = example
    other_driver = changed(blob, 8, 0xFF)
    with pytest.raises(ls.InvalidInput, match="hardware_only"):
        ls.decode(other_driver)
    for half in (other_driver, blob[:64], numbers(blob, 64)[:8], blob[:64].hex()):
        assert ls.decode(half, hardware_only=True) == tm
    assert any("not looked at" in note for note in decode_with_notes(blob, hardware_only=True).notes)


# What the bytes leave open


def test_a_bit_of_blackwells_is_told(example: tuple[ls.TensorMap, bytes]) -> None:
    """FACTS M-19: maps of one tensor may differ in this bit."""
    small = ls.TensorMap("f32", (64, 4), (1024,), (32, 4))
    large = ls.TensorMap("f32", (64, 4), (1 << 20,), (32, 4))
    for tm, said in ((small, "spans 3328 bytes: unless it is dense"), (large, "spans more")):
        blob = ls.encode_blob(tm)
        assert not int.from_bytes(blob[8:16], "little") & BLACKWELL_BIT
        assert not any("bit 21" in note for note in decode_with_notes(blob).notes)
        found = decode_with_notes(changed(blob, 1, BLACKWELL_BIT))
        assert found.tensor_map == tm
        assert any(said in note for note in found.notes)


def test_element_types_that_share_a_map_type_are_told() -> None:
    def notes(dtype: str) -> tuple[str, ...]:
        return decode_with_notes(ls.encode_blob(ls.TensorMap(dtype, (64,), (), (32,)))).notes

    assert "e4m3" in notes("u8")[0] and "bool" in notes("u8")[0]
    assert notes("bf16") == notes("u32") == ()


@pytest.mark.parametrize(
    ("rank", "lower", "upper", "corners"),
    [
        (3, (-3,), (2,), 0x0002_FFFD),
        (4, (-1, -128), (127, 5), 0x057F_80FF),
        (5, (-1, 2, -16), (15, -2, 1), 0x07CF_405F),
    ],
)
def test_im2col_maps_are_read_by_the_header(
    rank: int, lower: tuple[int, ...], upper: tuple[int, ...], corners: int
) -> None:
    """Nobody measured one: these words were put together by hand from TensorRT-LLM's tmaDescriptor.h."""
    common = 1 | (rank - 1) << 4 | 10 << 7 | 3 << 13  # im2col, bf16, swizzle 128B
    words = [0x1000, common | 8 << 32, 16 | 32 << 32, 64, 63 | 15 << 32, 15 | 15 << 32, 15, corners | 127 << 32]
    words[5] &= 0xFFFF_FFFF if rank == 3 else 2**64 - 1
    words[6] = (15 if rank == 5 else 0) | 1 << 35 | 63 << 56
    words[2] &= 0xFFFF_FFFF if rank == 3 else 2**64 - 1
    words[3] = 64 if rank == 5 else 0
    found = decode_with_notes(words, hardware_only=True)
    extents, strides = (64, 16, 16, 16, 16), (128, 256, 512, 1024)
    assert found.tensor_map == ls.TensorMap(
        "bf16",
        extents[:rank],
        strides[: rank - 1],
        element_stride=(1, 2, 1, 1, 1)[:rank],
        address=0x1000,
        swizzle="128B",
        mode="im2col",
        lower_corner=lower,
        upper_corner=upper,
        channels=64,
        pixels=128,
    )
    assert any("nobody measured" in note for note in found.notes)
    assert ls.decode([*words, *[7] * 8]) == found.tensor_map, "the driver's half of such a map is unknown"
    with pytest.raises(ls.InvalidInput, match="nobody measured"):
        ls.encode_blob(found.tensor_map)


# Refusals


@pytest.mark.parametrize(
    ("word", "bits", "said"),
    [
        (1, 1 << 1, "bit 1 of word 1 is set, where no encode call writes"),
        (1, 0x5 << 4, "rank 8"),
        (1, 0xF << 7, "data type code"),
        (1, 1 << 16, "rounds to tf32"),
        (1, 3 << 11, "interleave is 3"),
        (1, 3 << 19, "bits 19 to 20 of word 1 are set"),
        (2, 1 << 40, "in global_stride, past what a map of rank 3 has"),
        (5, 1 << 32, "in global_dim, past"),
        (7, 1 << 20, "in box, past"),
        (7, 1 << 40, "bit 40 of word 7"),
        (8, 1 << 3, "floor\\(box / element stride\\)"),
        (9, 1 << 9, "bytes after which the swizzle repeats"),
        (15, 1 << 63, "bit 63 of word 15"),
    ],
)
def test_refusals_name_what_gives_the_bytes_away(
    example: tuple[ls.TensorMap, bytes], word: int, bits: int, said: str
) -> None:
    with pytest.raises(ls.InvalidInput, match=said):
        ls.decode(changed(example[1], word, bits))


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (bytes(128), "all are zero; encode the map first"),
        ("00" * 128, "all are zero"),
        (b"", "there are 0; give 128"),
        (bytes(8), "size of a pointer"),
        (bytes(64), "hardware_only"),
        (bytes(127), "there are 127"),
        ([0] * 127, "there are 127 numbers"),
        ([256, *[0] * 127], "256 among 128 numbers"),
        ([2**64, *[0] * 15], "64 bits each"),
        ([0.5] * 16, "something else than integers"),
        (np.zeros(16), "format 'd'"),
        (np.zeros(16, ">u8"), "format '>Q'"),
        (None, "blob is NoneType"),
        (128, "blob is int"),
        ("", "it is empty"),
        ("0" * 255, "255 hex digits"),
        ("0x01 xyz", "it has 'x'"),
        ("11" * 127, "there are 127"),
    ],
)
def test_what_holds_no_map_is_refused(blob: Any, said: str) -> None:
    with pytest.raises(ls.InvalidInput, match=said):
        ls.decode(blob)


@pytest.mark.parametrize("size", [4, 8])
def test_words_printed_highest_byte_first_are_told(example: tuple[ls.TensorMap, bytes], size: int) -> None:
    blob = example[1]
    printed = "".join(blob[i : i + size][::-1].hex() for i in range(0, MAP_BYTES, size))
    with pytest.raises(ls.InvalidInput, match=f"each {8 * size}-bit word is printed highest byte first"):
        ls.decode(printed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"global_stride": (130,)}, "stride of dimension 1 is 130 bytes"),
        ({"global_stride": (1 << 40,)}, "multiples of 16 below 2\\^40"),
        ({"box": (64, 257)}, "box\\[1\\] is 257; a map's bytes hold 1 to 256"),
        ({"box": (0, 8)}, "box\\[0\\] is 0"),
        ({"element_stride": (1, 9)}, "element_stride\\[1\\] is 9; a map's bytes hold 1 to 8"),
        ({"global_dim": (64, 2**32 + 1)}, "global_dim\\[1\\] is 4294967297"),
        ({"swizzle": "128B_atom_32B"}, "how swizzle 128B_atom_32B is written; give one of none, 32B, 64B, 128B"),
        ({"oob_fill": 2}, "oob_fill 2"),
        ({"interleave": 3}, "interleave 3"),
        ({"dtype": "16u4_align8b"}, "data type 16u4_align8b"),
        ({"dtype": 99}, "data type 99"),
        (
            {"global_dim": (64,) * 6, "global_stride": (128,) * 5, "box": (8,) * 6, "element_stride": (1,) * 6},
            "rank is 6; a map holds 1 to 5",
        ),
    ],
)
def test_maps_that_no_bytes_hold_are_refused(arguments: dict[str, Any], said: str) -> None:
    fits: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 64), "global_stride": (128,), "box": (64, 8)}
    assert len(ls.encode_blob(ls.TensorMap(**fits))) == MAP_BYTES
    with pytest.raises(ls.InvalidInput, match=said):
        ls.encode_blob(ls.TensorMap(**{**fits, **arguments}))


def test_only_tensor_maps_are_written() -> None:
    with pytest.raises(ls.InvalidInput, match="not bytes"):
        ls.encode_blob(b"")  # type: ignore[arg-type]


# On the command line

LEGAL = ls.TensorMap("u8", (256, 64), (256,), (128, 8), swizzle="128B", address=0x1000)
REFUSED = ls.TensorMap("u8", (256, 64), (256,), (256, 8), swizzle="128B", address=0x1000)


def test_a_map_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", ls.encode_blob(LEGAL).hex()]) == 0
    out = capsys.readouterr().out
    for said in ("0x1000", "256, 64", "128, 8", "transaction bytes   1024", "on h200: legal", "note: a map of u8"):
        assert said in out
    words = [f"{word:#x}" for word in numbers(ls.encode_blob(REFUSED), 64)]
    assert main(["decode", *words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["tensor_map"]["box"] == [256, 8]
    assert found["explanation"]["diagnostics"][0]["code"] == "TMA009"
    assert main(["decode", *words, "--target", "mi300x"]) == 1
    assert "UNIT001" in capsys.readouterr().out


def test_a_map_in_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = ls.encode_blob(LEGAL)
    for name, data in (("raw.bin", blob), ("text.txt", blob.hex(" ", 8).encode() + b"\n")):
        (tmp_path / name).write_bytes(data)
        assert main(["decode", str(tmp_path / name)]) == 0
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert main(["decode", "-"]) == 0
    (tmp_path / "half").write_bytes(blob[:64])
    assert main(["decode", str(tmp_path / "half"), "--hardware-only"]) == 0
    assert capsys.readouterr().out.count("on h200: legal") == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.bin"], "missing.bin is no file"),
        (["00" * 128], "all are zero"),
        (["zz"], "no hex"),
        ([], "is missing; see"),
    ],
)
def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["decode", *words]) == 2
    assert said in capsys.readouterr().err
