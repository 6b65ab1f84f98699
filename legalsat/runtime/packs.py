"""Packs: cubins that were compiled ahead, in one file, for calls and machines that shall not wait for a compiler.

$LEGALSAT_PACKS names files, as PATH does folders. A pack is a zip archive with a member for each kernel's text, named
by the hash of text and architecture, and sealed with a hash of it all, so that a damaged or exchanged one is found;
`about` says what is in it. What another user owns or may write is not executed: it is refused.
"""

from __future__ import annotations

import io
import json
import os
import threading
import zipfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from legalsat import files
from legalsat.errors import InvalidInput
from legalsat.runtime.cache import key_of
from legalsat.sealed import sealed, unsealed

VARIABLE = "LEGALSAT_PACKS"
ABOUT = "about"
_READING = threading.Lock()  # an archive counts its readers, not one at a time
_BEGUN = (1980, 1, 1, 0, 0, 0)  # a member's date, so that equal packs are equal files


def packed(text: str, architecture: str) -> bytes | None:
    """Return the cubin of a text that a pack has; None where none has it.

    Args:
        text: CUDA C++.
        architecture: such as "sm_90a".

    Raises:
        InvalidInput: a pack that the environment names is not there, is no pack, or is another user's.
    """
    named = os.environ.get(VARIABLE, "")
    key = _key(text, architecture) if named else ""
    return next((cubin for file in filter(None, named.split(os.pathsep)) if (cubin := _in(file, key))), None)


def write_pack(file: str | Path, cubins: Iterable[tuple[str, str, bytes]], about: Mapping[str, Any]) -> int:
    """Write a pack and return its bytes.

    Args:
        file: to write.
        cubins: text, architecture and cubin of each kernel.
        about: plain values that say what is in it.

    Raises:
        InvalidInput: the file cannot be written.
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(_member(ABOUT), json.dumps(dict(about), indent=1))
        keyed = {_key(text, architecture): cubin for text, architecture, cubin in cubins}
        for key, cubin in sorted(keyed.items()):
            archive.writestr(_member(key), sealed(key, cubin))
    files.write(file, data.getvalue())
    return len(data.getvalue())


def about_pack(file: str | Path) -> dict[str, Any]:
    """Return what a pack says of itself; raise `InvalidInput` as `packed` does."""
    archive = _opened(file)
    try:
        with _READING:
            found = json.loads(archive.read(ABOUT))
    except Exception as error:
        raise _no_pack(file) from error
    return found if isinstance(found, dict) else {}


def _key(text: str, architecture: str) -> str:
    return key_of("packed", architecture, text)


def _member(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name, _BEGUN)
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def _in(file: str, key: str) -> bytes | None:
    archive = _opened(file)
    try:
        with _READING:
            return unsealed(key, archive.read(key))
    except Exception:  # not in it, or damaged, of which zipfile says this and that: compiled anew
        return None


def _opened(file: str | Path) -> zipfile.ZipFile:
    path = Path(file).expanduser()
    try:
        about = path.stat()
    except OSError as error:
        raise InvalidInput(f"{VARIABLE} names {path}, which cannot be read: {error.strerror}; name a pack") from None
    return _archive(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=8)
def _archive(path: Path, changed: int, size: int) -> zipfile.ZipFile:
    """Return what is in a file, whose list of members is read once, and again when it is another file."""
    del changed, size
    data = files.read(path, own=True)
    if data is None:
        raise InvalidInput(f"{path} is another user's, or others may write it, so its kernels are not run; copy it")
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:
        raise _no_pack(path) from error


def _no_pack(file: str | Path) -> InvalidInput:
    return InvalidInput(f"{file} is no pack; write one with `legalsat build --pack`")
