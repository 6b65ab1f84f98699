"""A sweep's store that was damaged on disk: the same bytes as without it, or a refusal that names the file."""

from __future__ import annotations

import random
import shutil
import stat
from collections.abc import Callable, Iterator
from os import mkfifo
from pathlib import Path

import pytest
from test_sweep import rows

import legalsat as ls
from legalsat.sweeps import engine
from legalsat.sweeps.store import Store

pytest.importorskip("pyarrow", reason="pyarrow is an extra")
SEED, CHUNKS, ROWS = 7, 12, 4


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bytes]]:
    """Yield a store of a sweep's chunks and of another GPU's, and the bytes of the file that the sweep wrote."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "CHUNK", ROWS)
        swept(folder / "store", folder / "out.parquet")
        ls.sweep(rows(CHUNKS * ROWS), "b200", store=folder / "store", workers=1)
        yield folder / "store", (folder / "out.parquet").read_bytes()


def swept(store: Path, out: Path) -> ls.sweeps.engine.Sweep:
    return ls.sweep(rows(CHUNKS * ROWS), "h200", store=store, out=out, workers=1)


def files_in(store: Path) -> list[Path]:
    return sorted(store.rglob("*.arrow"))


def flip(store: Path, rng: random.Random) -> None:
    """Flip a bit of a file."""
    path = rng.choice(files_in(store))
    data, place = bytearray(path.read_bytes()), rng.randrange(8 * path.stat().st_size)
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def exchange(store: Path, rng: random.Random) -> None:
    """Exchange two files."""
    one, other = rng.sample(files_in(store), 2)
    spare = store / "spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def cut_off(store: Path, rng: random.Random) -> None:
    """Keep the begin of a file."""
    path = rng.choice(files_in(store))
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def copied_over(store: Path, rng: random.Random) -> None:
    """Write one file's content over another."""
    one, other = rng.sample(files_in(store), 2)
    other.write_bytes(one.read_bytes())


@pytest.mark.parametrize("times", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", [flip, exchange, cut_off, copied_over])
def test_damage_changes_no_answer(
    kept: tuple[Path, bytes], tmp_path: Path, times: int, damage: Callable[[Path, random.Random], None]
) -> None:
    pristine, expected = kept
    whole = {path.relative_to(pristine): path.read_bytes() for path in files_in(pristine)}
    assert len(whole) == 2 * CHUNKS
    rng, store, noticed = random.Random(SEED), tmp_path / "store", 0
    for _ in range(times):
        shutil.copytree(pristine, store)
        damage(store, rng)
        done = swept(store, tmp_path / "out.parquet")
        assert (tmp_path / "out.parquet").read_bytes() == expected
        again = (CHUNKS * ROWS - done.reused) // ROWS
        damaged = sum((store / path).read_bytes() != data for path, data in whole.items())
        assert again + damaged <= 2, "what this sweep asked for is whole again; the other GPU's stay as they are"
        noticed += again > 0
        shutil.rmtree(store)
    assert noticed > times // 4, "half of the files are this sweep's"


def folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo_there(path: Path) -> None:
    path.unlink()
    mkfifo(path)


def link_there(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def file_for_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("")


@pytest.mark.parametrize("change", [folder_there, fifo_there, link_there, file_for_its_folder])
def test_what_is_no_file_is_refused_by_name(
    kept: tuple[Path, bytes], tmp_path: Path, change: Callable[[Path], None]
) -> None:
    store, refused = tmp_path / "store", 0
    for path in files_in(kept[0]):
        shutil.copytree(kept[0], store)
        place = store / path.relative_to(kept[0])
        change(place)
        try:
            swept(store, tmp_path / "out.parquet")
        except ls.InvalidInput as error:
            refused += 1
            assert str(place.parent) in str(error) and "is a " in str(error)
            assert not (tmp_path / "out.parquet").exists()
        else:
            assert (tmp_path / "out.parquet").read_bytes() == kept[1]
            (tmp_path / "out.parquet").unlink()
        shutil.rmtree(store)
    assert CHUNKS <= refused < 2 * CHUNKS


def test_a_store_is_a_folder_of_its_owner(kept: tuple[Path, bytes], tmp_path: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in files_in(kept[0])} == {0o600}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in files_in(kept[0])} == {0o700}
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below", "a\0b"):
        with pytest.raises(ls.InvalidInput, match=r"give a folder|no path"):
            Store(wrong)


@pytest.mark.parametrize("name", ["a.csv", "a.JSON", "a.html"])
def test_answers_are_not_written_under_the_name_of_another_form(tmp_path: Path, name: str) -> None:
    with pytest.raises(ls.InvalidInput, match=r"as Parquet; name a file that ends in \.parquet"):
        ls.sweep([{"m": 64, "n": 64, "k": 64}], "h200", out=tmp_path / name, workers=1)
    assert not list(tmp_path.iterdir())


def test_the_problems_are_not_replaced_by_their_answers(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('[{"m": 64, "n": 64, "k": 64}]', "utf-8")
    with pytest.raises(ls.InvalidInput, match="holds the problems"):
        ls.sweep(file, "h200", out=tmp_path / "." / "p.json", workers=1)
