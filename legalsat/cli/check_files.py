"""What `legalsat check` is given: files and folders, each checked as PTX or as machine code by what is in it."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.sass.text import CUBIN_MAGIC, is_sass
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.check.check_block import Extents, block_of, extents_of, takes_block
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx
from legalsat.extract.check.check_sass import SassCheck, check_sass

STANDARD_INPUT = "<stdin>"
MOST_BYTES = 1 << 28  # of a file
_TEXTS = (".ptx", ".sass")
_CUBIN = ".cubin"
_VERSION = re.compile(r"^[^\S\n]*\.version\b", re.M)  # which begins each module of PTX
_GIVE = "give PTX, machine code in text or a cubin"


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one file: what was found, or why it could not be checked."""

    name: str
    found: PtxCheck | SassCheck | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was given besides files; `used` takes the names that some file has."""

    target: str | None
    parameters: dict[str, int]
    boxes: dict[str, int]
    block: Extents | None
    grid: Extents | None
    used: set[str]


def check_files(args: Namespace) -> list[Checked]:
    """Check what the command line names. What is given besides must fit the only file, or one of several.

    Raises:
        InvalidInput: nothing is there to check, or what is given besides fits no file.
        UnknownTarget: the target is none that is known.
    """
    wishes = Wishes(
        args.target,
        _numbers(args.param, "--param"),
        _numbers(args.box_bytes, "--box-bytes"),
        None if args.block is None else block_of(_extents(args.block, "--block")),
        None if args.grid is None else extents_of(_extents(args.grid, "--grid"), "the grid"),
        set(),
    )
    alone = len(args.file) == 1 and not _is_folder(args.file[0])
    files = dict.fromkeys(_files(args.file, cubins=args.cubins))
    checked = [one for file in files for one in _checked(file, wishes, alone=alone)]
    if alone and len(checked) == 1:
        return checked
    unused = {*wishes.parameters, *wishes.boxes} - wishes.used
    if wishes.block and "--block" not in wishes.used:
        raise InvalidInput("no kernel of these files can be launched with --block; leave it out")
    if unused:
        raise InvalidInput(f"no kernel of these files has a parameter {', '.join(sorted(unused))}; leave it out")
    return checked


def _files(given: Sequence[str], *, cubins: bool) -> Iterator[str]:
    """Yield files, for a folder those below it that can be checked."""
    endings = (*_TEXTS, _CUBIN) if cubins else _TEXTS
    for name in given:
        if not _is_folder(name):
            yield name
            continue
        inside = sorted(str(file) for file in Path(name).rglob("*") if file.suffix in endings and file.is_file())
        if not inside:
            wanted = " or ".join(f"*{ending}" for ending in endings)
            raise InvalidInput(f"no {wanted} below {name}; give a folder that has some")
        yield from inside


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):  # no file system takes such a name; reading it says so
        return False


def _checked(file: str, wishes: Wishes, *, alone: bool) -> Iterator[Checked]:
    """Yield what comes of the modules in a file; what is given must fit if it has but one, and is `alone`."""
    name = STANDARD_INPUT if file == "-" else file
    try:
        modules = _modules(_text(file))
    except LegalSatError as error:
        yield Checked(name, None, str(error))
        return
    for text in modules:
        strict = alone and len(modules) == 1
        try:
            yield Checked(name, _check(text, wishes if strict or is_sass(text) else _fitting(text, wishes)))
        except LegalSatError as error:
            if strict and isinstance(error, InvalidInput):
                raise  # what is given does not fit
            yield Checked(name, None, str(error))


def _modules(text: str) -> list[str]:
    """Return the modules of a text, of which `cuobjdump -ptx` prints several, with the lines that they have in it."""
    begins = [found.start() for found in _VERSION.finditer(text)]
    if len(begins) < 2 or is_sass(text):
        return [text]
    return ["\n" * text.count("\n", 0, one) + text[one:end] for one, end in pairwise([*begins, len(text)])]


def _check(text: str, wishes: Wishes) -> PtxCheck | SassCheck:
    if is_sass(text):
        return check_sass(text, wishes.target)
    return check_ptx(
        text,
        wishes.target,
        parameters=wishes.parameters,
        box_bytes=wishes.boxes,
        block=wishes.block,
        grid=wishes.grid,
        seconds=None,  # a file may have many kernels
    )


def _fitting(text: str, wishes: Wishes) -> Wishes:
    """Return what of the wishes is meant for a text, and mark it as used."""
    module = parse(text)
    names = {parameter.name for kernel in module.kernels for parameter in kernel.parameters}

    def kept(given: dict[str, int]) -> dict[str, int]:
        found = {n: v for n, v in given.items() if n.startswith("%") or n in names or n.partition("+")[0] in names}
        wishes.used.update(found)
        return found

    block = wishes.block if wishes.block and takes_block(module, wishes.block) else None
    wishes.used.update({"--block"} if block else ())
    return Wishes(wishes.target, kept(wishes.parameters), kept(wishes.boxes), block, wishes.grid, wishes.used)


def _text(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # what no file system takes as a name is a ValueError
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"cannot be read: {why.lower()}; {_GIVE}") from error
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"more than {MOST_BYTES >> 20} MiB; give parts of it")
    if data.startswith(CUBIN_MAGIC):
        from legalsat.backends.ptx.disassemble import disassemble  # noqa: PLC0415 - it loads what prints PTX

        return disassemble(data)
    if b"\0" in data:
        raise InvalidInput(f"neither text nor a cubin; {_GIVE}")
    return data.decode("utf-8", errors="replace")  # PTX is ASCII, but for names of files and comments


def _numbers(words: Sequence[str], option: str) -> dict[str, int]:
    found = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        try:
            found[name] = int(value, 0)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidInput(f"{option} {word!r} is no NAME=NUMBER; write it like n=4096")
    return found


def _extents(word: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in word.replace("x", ",").split(","))
    except ValueError:
        raise InvalidInput(f"{option} {word!r} is no number of {option[2:]}s; write it like 384 or 32x8") from None
