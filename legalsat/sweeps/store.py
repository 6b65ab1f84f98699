"""A folder of answers by what they answer: safe against several writers, and never stale.

A name is a digest of the question, of the package's sources and of the packages that decide with it, so that another
version finds nothing. A file appears whole or not at all, and is sealed under its name: what was damaged or exchanged
on disk counts as not answered.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from pathlib import Path

import legalsat
from legalsat import files
from legalsat.errors import InvalidInput
from legalsat.sealed import sealed, unsealed

DECIDING = ("egglog", "islpy", "z3-solver", "numpy")


@lru_cache
def version_digest() -> str:
    """Return a digest of every source file of the package, and of the versions of what it decides with."""
    digest = hashlib.sha256()
    root = Path(legalsat.__file__).parent
    sources = {path.resolve() for path in root.rglob("*.py")}
    for folder in (path for path in root.iterdir() if path.is_dir()):  # committed links, which rglob passes over
        sources |= {path.resolve() for path in folder.resolve().rglob("*.py")}
    # In the order of what they are, since files of one name lie in folders of one name, and links have other paths.
    for name, text in sorted((path.name, path.read_bytes()) for path in sources):
        digest.update(name.encode() + b"\0" + text)
    for name in DECIDING:
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """Return the name of an answer to a question in these parts."""
    digest = hashlib.sha256(version_digest().encode())
    for part in parts:
        digest.update(b"\0" + part.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


class Store:
    """Answers in a folder, which is made when the first one comes, and is its user's alone.

    Raises:
        InvalidInput: here and in all methods, where there is no folder or no file under a name that is one's, or it
            cannot be read or written; the message names it.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = files.require_folder(folder)

    def get(self, key: str) -> bytes | None:
        """Return an answer, None if there is none or it is damaged."""
        return unsealed(key, files.read(self._path(key)))

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer; what another writer kept meanwhile is the same."""
        path = self._path(key)
        for last in (False, True):
            try:
                files.make_private(path.parent)
                files.write(path, sealed(key, answer))
            except InvalidInput:
                if last or path.parent.is_dir():
                    raise  # else a sweep that ended has just dropped the folder
            else:
                return

    def clear(self) -> None:
        """Drop everything that a store writes, and the folder if nothing else is in it."""
        for folder in [path for path in self.folder.glob("??") if path.is_dir()]:
            files.drop_drafts(folder)
            for path in folder.glob("*.arrow"):
                with suppress(OSError):
                    path.unlink()
            _remove(folder)
        _remove(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.arrow"


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # another writer is at work there, or something else lies in it
