"""Packs of cubins: what is written is read again, and what is damaged, exchanged or another's is never run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.backends.cute import compile as cute
from legalsat.cli import main
from legalsat.runtime import Cache, Kernel
from legalsat.runtime import build as building
from legalsat.runtime.choice import candidates
from legalsat.runtime.packs import VARIABLE, about_pack, packed, write_pack
from legalsat.targets import target

TEXTS = [("one", "sm_90a", b"cubin of one" * 100), ("two", "sm_90a", b"cubin of two"), ("one", "sm_80", b"older")]
H200 = target("h200")
LEGAL, ODD = ls.Gemm(300, 136, 200, "bf16"), ls.Gemm(4096, 4096, 4095, "bf16")


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "some.pack"
    write_pack(file, TEXTS, {"target": "h200"})
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def compiled(text: str, architecture: str) -> bytes:
    """Return what stands for a cubin, which no compiler made."""
    return f"{architecture}: {text}".encode()


def refuse(*_: Any) -> Any:
    raise cute.CompilationFailed("no nvcc was found; install it")


def test_what_is_written_is_read_again(pack: Path) -> None:
    assert [packed(text, architecture) for text, architecture, _ in TEXTS] == [cubin for _, _, cubin in TEXTS]
    assert packed("two", "sm_80") is None and packed("three", "sm_90a") is None
    assert about_pack(pack) == {"target": "h200"}
    again = pack.parent / "again.pack"
    write_pack(again, reversed(TEXTS), {"target": "h200"})
    assert again.read_bytes() == pack.read_bytes(), "equal packs are equal files"


def test_the_first_of_several_packs_that_has_a_text_gives_it(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pack.parent / "first.pack"
    write_pack(first, [("two", "sm_90a", b"of the first")], {})
    monkeypatch.setenv(VARIABLE, os.pathsep.join([str(first), str(pack)]))
    assert (packed("two", "sm_90a"), packed("one", "sm_90a")) == (b"of the first", TEXTS[0][2])
    monkeypatch.setenv(VARIABLE, "")
    assert packed("two", "sm_90a") is None


def test_a_pack_that_is_written_anew_is_read_anew(pack: Path) -> None:
    assert packed("two", "sm_90a") == b"cubin of two"
    write_pack(pack, [("two", "sm_90a", b"another cubin of two")], {})
    assert (packed("two", "sm_90a"), packed("one", "sm_90a")) == (b"another cubin of two", None)


def test_members_that_are_exchanged_are_not_taken(pack: Path) -> None:
    with zipfile.ZipFile(pack) as archive:
        names = [name for name in archive.namelist() if name != "about"]
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(pack, "w") as archive:
        archive.writestr("about", held["about"])
        for name, other in zip(names, [*names[1:], names[0]], strict=True):
            archive.writestr(name, held[other])
    assert [packed(text, architecture) for text, architecture, _ in TEXTS] == [None] * 3


def test_no_flipped_bit_gives_another_cubin(pack: Path) -> None:
    whole, right, lost = pack.read_bytes(), [cubin for _, _, cubin in TEXTS], 0
    for place in range(0, len(whole), 3):
        pack.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        os.utime(pack, ns=(place, place))
        try:
            found = [packed(text, architecture) for text, architecture, _ in TEXTS]
        except ls.InvalidInput as error:
            assert "is no pack; write one with `legalsat build --pack`" in str(error)
            lost += 1
        else:
            assert all(one in {None, cubin} for one, cubin in zip(found, right, strict=True)), place
            lost += None in found
    assert lost > 10, "most bits matter"


@pytest.mark.parametrize("held", [b"", b"PK", b"no pack at all", b"\0" * 1000])
def test_what_is_no_pack_is_said(pack: Path, held: bytes) -> None:
    pack.write_bytes(held)
    with pytest.raises(ls.InvalidInput, match="is no pack; write one with"):
        packed("one", "sm_90a")


def test_a_pack_that_is_not_there_is_said(pack: Path) -> None:
    pack.unlink()
    with pytest.raises(ls.InvalidInput, match=f"{VARIABLE} names .*some.pack, which cannot be read: No such file"):
        packed("one", "sm_90a")
    pack.mkdir()
    with pytest.raises(ls.InvalidInput, match="is a folder, where a file is expected"):
        packed("one", "sm_90a")


def test_what_others_may_write_is_not_run(pack: Path) -> None:
    pack.chmod(0o666)
    os.utime(pack, ns=(1, 1))
    with pytest.raises(ls.InvalidInput, match="or others may write it, so its kernels are not run; copy it"):
        packed("one", "sm_90a")


def test_a_pack_needs_no_compiler(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a product that is laid out anew first, both kernels are taken from it."""
    monkeypatch.setattr(cute, "_compiled", compiled)
    monkeypatch.setenv("LEGALSAT_CACHE", "off")
    built = building.build([LEGAL, ODD], H200, pack=pack)
    assert (built.products, built.refused) == (2, ())
    assert built.texts == len(about_texts(LEGAL) | about_texts(ODD)) > 2
    assert about_pack(pack)["products"] == [str(LEGAL), str(ODD)]
    for name in ("nvcc", "nvcc_version", "_compiled"):
        monkeypatch.setattr(cute, name, refuse)
    cache = Cache(tmp_path / "cache")
    for product in (LEGAL, ODD):
        kernel = Kernel(candidates(product, H200, 1)[0][2], cache=cache).build()
        assert kernel._image is not None
        assert kernel._image.code == compiled(kernel.program.text, "sm_90a")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ls.LegalSatError, match="no nvcc was found"):
        Kernel(candidates(ls.Gemm(77, 136, 200, "bf16"), H200, 1)[0][2], cache=cache).build()


def about_texts(product: ls.Gemm) -> set[str]:
    return about_programs(candidates(product, H200, 1)[0][2])


def about_programs(program: Any) -> set[str]:
    return {program.text, *(one.program.text for one in program.before)}


def test_texts_that_are_refused_are_told_by_their_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = candidates(ODD, H200, 1)[0][2].text

    def some(text: str, architecture: str) -> bytes:
        return refuse() if text == bad else compiled(text, architecture)

    monkeypatch.setattr(cute, "_compiled", some)
    monkeypatch.setenv("LEGALSAT_CACHE", str(tmp_path / "cache"))
    progress = list[tuple[int, int]]()
    built = building.build([LEGAL, ODD], H200, on_progress=lambda *said: progress.append(said))
    assert built.refused == ((str(ODD), "no nvcc was found; install it"),)
    assert (built.products, progress[-1]) == (1, (built.texts, built.texts + 1))
    none = building.build([LEGAL], target("b200"))
    assert (none.products, none.refused) == (0, ((str(LEGAL), "cute prints no kernel of it for b200"),))


def test_the_command_builds_a_file_of_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cute, "_compiled", compiled)
    monkeypatch.setenv("LEGALSAT_CACHE", str(tmp_path / "cache"))
    shapes, out = tmp_path / "shapes.csv", tmp_path / "my.pack"
    shapes.write_text(
        "operator,m,n,k,batch,shape\ngemm,300,136,200,,\ngemm,300,136,200,4,\ngemm,300,136,200,,\ncopy,,,,,64x64\nwhat,,,,,\n"
    )
    assert main(["build", "--pack", str(shapes), "--target", "h200", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    batched = ls.Gemm(300, 136, 200, "bf16", batch=(4,))
    assert f"2 products of {shapes}"[:60] in said
    assert f"export {VARIABLE}={out}" in said and "1 of copy, 1 of invalid rows" in said
    assert about_pack(out)["products"] == [str(LEGAL), str(batched)], "each once"
    monkeypatch.setenv(VARIABLE, str(out))
    assert all(packed(text, "sm_90a") for one in (LEGAL, batched) for text in about_texts(one))
    shapes.write_text("operator,shape\ncopy,64x64\n")
    assert main(["build", "--pack", str(shapes), "--target", "h200"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has no products; give a file with rows of the operator gemm, or llm" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "h200"], "--pack is missing"),
        (["--pack", "llm"], "--target is missing"),
        (["--pack", "lama-3-8b", "--target", "h200"], "lama-3-8b is neither a file nor a catalogue"),
        (["--pack", "llm", "--target", "h200", "--kernels", "0"], "kernels is 0"),
        (["--pack", "llm", "--target", "h200", "--out", "/no/such/folder/x"], "cannot write /no/such/folder/x"),
    ],
)
def test_wrong_words_are_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command_says_which_products_have_no_kernel(tmp_path: Path) -> None:
    """In a process of its own, as a user would."""
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("operator,m,n,k\ngemm,300,136,200\n")
    command = [sys.executable, "-m", "legalsat", "build", "--pack", str(shapes), "--target", "b200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "1 without a kernel" in done.stdout and "cute prints no kernel of it for b200" in done.stdout


def test_what_lays_operands_out_is_compiled_beside_what_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text waits until all are being compiled: one after the other they would wait for ever."""
    programs = (one[2] for one in candidates(ls.Gemm(4095, 4095, 4093, "bf16"), H200, 200))
    program = next(one for one in programs if len(about_programs(one)) == 3)
    together = threading.Barrier(len(about_programs(program)))

    def meets(text: str, architecture: str) -> bytes:
        together.wait(20.0)
        return compiled(text, architecture)

    monkeypatch.setattr(cute, "_compiled", meets)
    monkeypatch.setenv("LEGALSAT_CACHE", "off")
    kernel = Kernel(program, cache=Cache(tmp_path)).build()
    found = [one._image for one in (*kernel._before, kernel)]
    assert [one.code for one in found if one is not None] == [
        compiled(one.text, "sm_90a") for one in (*(before.program for before in program.before), program)
    ]

    def refuses(text: str, architecture: str) -> bytes:
        return compiled(text, architecture) if text == program.text else refuse()

    monkeypatch.setattr(cute, "_compiled", refuses)
    with pytest.raises(cute.CompilationFailed, match="no nvcc was found"):
        Kernel(program, cache=Cache(tmp_path / "other")).build()
