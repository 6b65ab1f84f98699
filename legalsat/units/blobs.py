"""The forms in which people have a CUtensorMap's bytes: buffers, lists of numbers, hex as tools print it."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any

from legalsat.checks import sequence
from legalsat.errors import InvalidInput
from legalsat.printable import shown

MAP_BYTES = 128
HARDWARE_BYTES = 64
_WIDTHS = {8: 8, 16: 8, 32: 4, 64: 1, 128: 1}  # bytes of each number by how many there are; 8 and 64 are a half

_OFFSET = re.compile(r"^[ \t]*(0[xX])?[0-9a-fA-F]{4,16}( <[^>\n]*>)?:(?=\s)", re.MULTILINE)  # of gdb's and xxd's lines
_BETWEEN = re.compile(r"[\s:_,;{}()\[\]'\"-]+")
_NUMBER = re.compile(r"0[xX]([0-9a-fA-F]+)[uUlL]*")
_HEX = re.compile(r"[0-9a-fA-F]+")


def no_map(reason: str) -> InvalidInput:
    """Return the error that says why bytes are not those of a CUtensorMap."""
    return InvalidInput(f"these are not a CUtensorMap's bytes: {reason}")


def bytes_of(blob: Any) -> bytes:
    """Return the bytes that `blob` stands for, in any of the forms that `legalsat.decode` takes; any number of them.

    Raises:
        InvalidInput: it stands for none.
    """
    if isinstance(blob, str):
        return _from_text(blob)
    opaque = getattr(blob, "opaque", None)
    if isinstance(opaque, list):  # cuda.bindings, whose numbers are no indices
        return _packed([int(word) for word in opaque])
    try:
        view = memoryview(blob)
    except TypeError:
        view = None
    if view is not None and view.nbytes in (MAP_BYTES, HARDWARE_BYTES):
        if view.format.strip("<=@|") in tuple("bBcxhHiIlLqQ") or view.itemsize == view.nbytes:
            return view.tobytes()
        raise InvalidInput(
            f"blob is an array of format {shown(view.format)}; give native integers, such as numpy's uint8"
        )
    if isinstance(blob, bytes | bytearray):
        return bytes(blob)
    if not isinstance(blob, Iterable):
        raise InvalidInput(f"blob is {type(blob).__name__}; give the {MAP_BYTES} bytes of a CUtensorMap, or hex text")
    try:
        return _packed([operator.index(number) for number in sequence(blob, "blob", "numbers")])
    except TypeError:
        raise InvalidInput("blob holds something else than integers; give bytes, or words of 32 or 64 bits") from None


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers as little-endian bytes: their count says how wide each is, a map being 128 bytes."""
    if len(numbers) not in _WIDTHS:
        raise no_map(f"there are {len(numbers)} numbers; give {MAP_BYTES} bytes, 32 words of 32 bits or 16 of 64")
    width = _WIDTHS[len(numbers)]
    bits = 8 * width
    for number in numbers:
        if not -(1 << (bits - 1)) <= number < 1 << bits:
            raise InvalidInput(
                f"blob has {number} among {len(numbers)} numbers, which are of {bits} bits each; mend it"
            )
    return b"".join((number % (1 << bits)).to_bytes(width, "little") for number in numbers)


def _from_text(text: str) -> bytes:
    tokens = [token for token in _BETWEEN.split(_OFFSET.sub(" ", text)) if token]
    numbers = [_NUMBER.fullmatch(token) for token in tokens]
    if len(tokens) > 1 and all(numbers):
        return _packed([int(number[1], 16) for number in numbers if number])
    digits = "".join(token.removeprefix("0x").removeprefix("0X") for token in tokens)
    if not _HEX.fullmatch(digits):
        odd = next((c for c in digits if not _HEX.fullmatch(c)), "")
        what = f"it has {shown(odd)}" if odd else "it is empty"
        raise InvalidInput(f"the text is no hex: {what}; give {2 * MAP_BYTES} hex digits, as `xxd -p` prints them")
    if len(digits) % 2:
        raise no_map(f"there are {len(digits)} hex digits; give {2 * MAP_BYTES}")
    return bytes.fromhex(digits)
