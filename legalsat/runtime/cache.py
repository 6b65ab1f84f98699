"""A folder of built images, so that a kernel is compiled once for all processes.

Where: $LEGALSAT_CACHE; else legalsat/ in $XDG_CACHE_HOME; else in ~/.cache. LEGALSAT_CACHE=off means none. An entry is
its key's hash, and holds the hash of key and content, so that a damaged or exchanged one is found and built anew. What
another user owns or may write is not executed: it is built anew too. A folder that cannot be written is no error.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from legalsat import files
from legalsat.errors import InvalidInput
from legalsat.sealed import sealed, unsealed

VARIABLE = "LEGALSAT_CACHE"
OFF = "off"


def cache_folder() -> Path | None:
    """Return the folder that the environment names, None for none."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return None if named in {"", OFF} else Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and Path(base).is_absolute():  # others are to be ignored, says the XDG base directory specification
        return Path(base, "legalsat")
    try:
        return Path.home() / ".cache" / "legalsat"
    except RuntimeError:
        return None


def key_of(*parts: str | bytes) -> str:
    """Return the key of what these parts determine; no other parts have it."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


class Cache:
    """Bytes by key, in a folder; with none, nothing is kept."""

    def __init__(self, folder: Path | str | None) -> None:
        """Take the folder, which need not exist yet."""
        self.folder = None if folder is None else Path(folder)

    @staticmethod
    def default() -> Cache:
        """Return the cache that the environment names."""
        return Cache(cache_folder())

    def read(self, key: str) -> bytes | None:
        """Return what this user wrote under a key; None if nothing was, or it is damaged."""
        if self.folder is None:
            return None
        try:
            return unsealed(key, files.read(self._path(key), own=True))
        except InvalidInput:
            return None

    def write(self, key: str, data: bytes) -> None:
        """Keep bytes under a key, if the folder can be written."""
        if self.folder is None:
            return
        path = self._path(key)
        with suppress(InvalidInput):
            files.make_private(path.parent)
            files.write(path, sealed(key, data))

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key
