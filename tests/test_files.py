"""Files that are written: into no device, through no link, whole or not at all, and their owner's alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat import files
from legalsat.cli import main
from legalsat.runtime.cache import Cache, key_of
from legalsat.sealed import sealed, unsealed

PARTS = ("rules", "analyses", "extract", "backends")
DENSE = ["synthesize", "copy", "--shape", "256x256", "--dtype", "bf16", "--target", "h200"]


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.with_name("victim").write_text("kept")
    path.symlink_to("victim")


def dangling(path: Path) -> None:
    path.symlink_to("victim")


def named_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


STRANGE: dict[str, Callable[[Path], None]] = {
    "FIFO": fifo,
    "link": link,
    "link to nothing": dangling,
    "socket": named_socket,
    "folder": Path.mkdir,
}


def saved_plan(path: Path) -> None:
    ls.synthesize(ls.Copy(ls.Tensor((256, 256), "bf16")), "h200").save(path)


def swept(path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    ls.sweep([{"m": 64, "n": 64, "k": 64}], "h200", out=path, workers=1)


def reported(path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    from legalsat.sweeps.report import report  # noqa: PLC0415 - needs pyarrow

    ls.sweep([{"m": 64, "n": 64, "k": 64}], "h200", out=path.parent / "a.parquet", workers=1)
    report(path.parent / "a.parquet", path)


def command(*words: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        if code := main([*words, str(path)]):
            raise ls.InvalidInput(str(code))

    return run


WRITERS: dict[str, Callable[[Path], None]] = {
    "write": lambda path: files.write(path, "text"),
    "Plan.save": saved_plan,
    "sweep": swept,
    "report": reported,
    "--output": command(*DENSE, "--output"),
    "--chart": command(
        "synthesize", "gemm", "--m", "256", "--n", "256", "--k", "256", "--dtype", "bf16", "--target", "h200", "--chart"
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_regular_file_is_neither_written_nor_replaced(tmp_path: Path, writer: str, kind: str) -> None:
    path = tmp_path / "target"
    STRANGE[kind](path)
    before = path.lstat()
    with pytest.raises(ls.InvalidInput):
        WRITERS[writer](path)
    after = path.lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    victim = tmp_path / "victim"
    assert victim.read_text() == "kept" if kind == "link" else not victim.exists()
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")], "no draft stays behind"


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/stdout"])
def test_devices_stay(device: str) -> None:
    with pytest.raises(ls.InvalidInput, match="regular file"):
        files.writable(device)


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 300, "no/such/folder/x", "\ud800", 3, None])
def test_what_names_no_file_is_refused(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ls.InvalidInput):
        files.write(path, "text")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("mask", [0, 0o777])
def test_a_new_file_is_its_owners_alone(tmp_path: Path, writer: str, mask: int, umask: Callable[[int], int]) -> None:
    path = tmp_path / "target"
    umask(mask)
    WRITERS[writer](path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "target"
    path.write_text("old")
    path.chmod(0o644)
    files.write(path, "new")
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_draft_is_private_and_nobody_can_foretell_its_name(tmp_path: Path, umask: Callable[[int], int]) -> None:
    umask(0)
    names = set()
    for _ in range(20):
        with files.replacing(tmp_path / "target") as draft:
            draft.write(b"half")
            (one,) = (path for path in tmp_path.iterdir() if path.name != "target")
            assert stat.S_IMODE(one.lstat().st_mode) == 0o600
            names.add(one.name)
    assert len(names) == 20 and [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_draft_is_made_and_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link under the draft's very name is no way in."""
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    with files.replacing(tmp_path / "one"):
        (draft,) = tmp_path.iterdir()
    (tmp_path / "victim").write_text("kept")
    draft.symlink_to("victim")
    with pytest.raises(ls.InvalidInput, match="cannot write"):
        files.write(tmp_path / "two", "text")
    assert (tmp_path / "victim").read_text() == "kept" and draft.is_symlink()


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "target"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.replacing(path) as draft:
        draft.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_exchanged_meanwhile_gets_nothing(tmp_path: Path) -> None:
    folder, other, moved = tmp_path / "mine", tmp_path / "theirs", tmp_path / "moved"
    folder.mkdir()
    other.mkdir()
    with files.replacing(folder / "target") as draft:
        draft.write(b"text")
        folder.rename(moved)
        folder.symlink_to(other)
    assert (moved / "target").read_bytes() == b"text" and not list(other.iterdir())


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    path, texts = tmp_path / "target", [bytes([letter]) * 100_000 for letter in range(8)]
    wrong: list[bytes] = []

    def write(text: bytes) -> None:
        for _ in range(10):
            files.write(path, text)
            files.drop_drafts(tmp_path)
            if (found := path.read_bytes()) not in texts:
                wrong.append(found)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and path.read_bytes() in texts and len(list(tmp_path.iterdir())) == 1


_HELD = """
import sys
from legalsat import files
with files.replacing(sys.argv[1]) as draft:
    draft.write(b"half")
    print("held", flush=True)
    sys.stdin.read()
"""


def test_drafts_of_killed_writers_are_dropped_and_those_of_others_are_not(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(ls.__file__).parents[1])}
    words = [sys.executable, "-c", _HELD, str(tmp_path / "target")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        files.drop_drafts(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1, "its writer lives"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert len(list(tmp_path.iterdir())) == 1
    files.drop_drafts(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "target"
    STRANGE[kind](path)
    with pytest.raises(ls.InvalidInput, match="target"):
        files.read(path)
    assert Cache(tmp_path).read("x") is None


def test_every_flipped_bit_breaks_the_seal() -> None:
    key, data = key_of("a"), bytes(range(200))
    written = sealed(key, data)
    assert unsealed(key, written) == data and unsealed(key_of("b"), written) is None and unsealed(key, None) is None
    for place in range(8 * len(written)):
        flipped = bytearray(written)
        flipped[place // 8] ^= 1 << place % 8
        assert unsealed(key, bytes(flipped)) is None
    assert all(unsealed(key, written[:length]) is None for length in range(len(written)))


def entry(folder: Path) -> Path:
    (path,) = (path for path in folder.rglob("*") if path.is_file())
    return path


def test_an_image_that_others_may_write_is_not_executed(tmp_path: Path, umask: Callable[[int], int]) -> None:
    umask(0)
    cache, key = Cache(tmp_path / "cache"), key_of("x")
    cache.write(key, b"image")
    path = entry(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o700 for one in (path.parent, tmp_path / "cache"))
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert cache.read(key) is None
    path.chmod(0o644)
    assert cache.read(key) == b"image"


def test_an_image_of_another_owner_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, key = Cache(tmp_path), key_of("x")
    cache.write(key, b"image")
    assert cache.read(key) == b"image"
    if os.geteuid() == 0:
        os.chown(entry(tmp_path), 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert cache.read(key) is None


def test_images_that_were_exchanged_are_not_executed(tmp_path: Path) -> None:
    cache, one, other = Cache(tmp_path), key_of("one"), key_of("other")
    cache.write(one, b"image of one")
    path = entry(tmp_path)
    cache.write(other, b"image of the other")
    path.write_bytes(next(found for found in tmp_path.rglob(other)).read_bytes())
    assert cache.read(one) is None and cache.read(other) == b"image of the other"


WRITES = re.compile(
    r"write_text\(|write_bytes\(|mkstemp|NamedTemporaryFile|open\([^)]*[\"'][rb+]*[wax]|os\.replace|os\.open\("
)


def test_one_module_writes_files() -> None:
    root = Path(ls.__file__).parents[1]
    sources = [path for name in ("legalsat", *PARTS) for path in sorted((root / name).rglob("*.py"))]
    writers = {path.relative_to(root).as_posix() for path in sources if WRITES.search(path.read_text("utf-8"))}
    # The others send what is printed to a pipe that broke, and what a driver prints, nowhere.
    assert writers == {"legalsat/files.py", "legalsat/cli/__init__.py", "legalsat/demo.py"} and len(sources) > 100
