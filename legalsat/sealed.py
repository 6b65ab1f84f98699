"""Bytes in a file, sealed with a hash of themselves and of the key that they are kept under.

One flipped bit breaks the seal, and so does a file that stands under another file's name. A seal finds accidents: who
may write the file may seal it again.
"""

from __future__ import annotations

import hashlib

_MAGIC = b"legalsat sealed 1\n"
_BEGIN = len(_MAGIC) + hashlib.sha256().digest_size


def sealed(key: str, data: bytes) -> bytes:
    """Return what to write of some data under a key."""
    return b"".join((_MAGIC, _hash(key, data), data))


def unsealed(key: str, written: bytes | None) -> bytes | None:
    """Return the data that were sealed under a key; None where there are none, or the seal is broken."""
    if written is None or not written.startswith(_MAGIC):
        return None
    data = written[_BEGIN:]
    return data if _hash(key, data) == written[len(_MAGIC) : _BEGIN] else None


def _hash(key: str, data: bytes) -> bytes:
    name = key.encode()
    digest = hashlib.sha256(f"{len(name)}:".encode() + name)
    digest.update(data)
    return digest.digest()
