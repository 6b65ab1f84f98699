"""Launches in pasted C++, `kernel<<<grid, block, bytes, stream>>>(...)`: what the launch takes of each.

`dim3 grid(M / 128, N)` and constants are followed as far as they are plain numbers of the text; what is not known stays
open. A launch of more shared memory than 48 KiB that nothing asked for before, and one of more than the GPU has, fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import arguments_of, constants, whole_number
from legalsat.pasted.code.uses import MOST_BLOCKS, Judged
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target

MOST_LAUNCHES, MOST_THREADS, MOST_OF_AXES = 16, 1024, (1024, 1024, 64)
STATIC_BYTES = 48 * 1024  # that a launch takes without asking first
_LAUNCH = re.compile(r"(?:\b(?P<name>\w+)\s?(?:<[^<>;{}]{1,400}>)?\s?)?<<<(?P<given>[^;]{1,400}?)>>>")
_PRINTED = re.compile(r"\((?:\d{1,10}(?:, ?\d{1,10}){0,2})\)")  # as cuda-gdb prints a grid or a block
_DIM3 = re.compile(r"\bdim3\s+(?P<name>\w+)\s?(?:=\s?(?:dim3)?\s?)?[({](?P<sizes>[^;]{1,300}?)[)}]\s?(?=[;,])")
_DECLARED = re.compile(r"\bdim3\s+(?P<more>[^;]{1,400});")
_MEMBER = re.compile(r"\b(?P<name>\w+)\.(?P<axis>[xyz])\s?=\s?(?P<size>[^;=]{1,120});")
_OPT_IN = re.compile(r"MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE", re.IGNORECASE)
_CDIV = re.compile(
    r"\b(?:\w+::)?(?:ceil_?div|cdiv|div_?up|ceildiv|div_ceil|DIVUP|CEIL_DIV)\(([^(),]{1,60}),([^(),]{1,60})\)"
)


def launched(text: str, target: Target, *, failed: bool) -> list[Judged]:
    """Return the launches of a text whose blocks, threads or bytes are more than a launch takes, each once.

    Args:
        text: the text.
        target: the GPU that it was for.
        failed: whether the text says that something failed; of one that does not, what it leaves out may be elsewhere.
    """
    if target.vendor != "nvidia" or "<<<" not in text:
        return []
    names = constants(text)
    allowed = not failed or _OPT_IN.search(text) is not None
    sizes = dict(_dimensions(text, names))
    found: dict[str, Judged] = {}
    for match in islice(_LAUNCH.finditer(text), MOST_LAUNCHES):
        given = arguments_of(match["given"])
        said = f"launch of {match['name'] or 'the kernel'}<<<{', '.join(given)}>>>"
        broken = [
            *_of_grid(_axes(given[0], names, sizes), said),
            *(_of_block(_axes(given[1], names, sizes), said) if len(given) > 1 else ()),
            *(_of_memory(given[2], names, target, said, allowed=allowed) if len(given) > 2 else ()),
        ]
        if broken:
            found.setdefault(said, Judged(said, tuple(broken)))
    return list(found.values())


def _dimensions(text: str, names: Mapping[str, int]) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    for declaration in islice(_DECLARED.finditer(text), MOST_LAUNCHES):
        for one in islice(_DIM3.finditer(f"dim3 {declaration['more']};"), MOST_LAUNCHES):
            yield one["name"], tuple(_number(size, names) for size in arguments_of(one["sizes"]))
        for part in arguments_of(declaration["more"])[1:]:  # dim3 grid(4, 4), block(256);
            further = _DIM3.match(f"dim3 {part};")
            if further is not None:
                yield further["name"], tuple(_number(size, names) for size in arguments_of(further["sizes"]))
    members: dict[str, list[int | None]] = {}
    for match in islice(_MEMBER.finditer(text), 4 * MOST_LAUNCHES):
        members.setdefault(match["name"], [1, 1, 1])["xyz".index(match["axis"])] = _number(match["size"], names)
    yield from ((name, tuple(axes)) for name, axes in members.items())


def _number(words: str, names: Mapping[str, int]) -> int | None:
    """Return the number that an expression is, rounded up where its names say so; None of an unknown one."""
    whole = _CDIV.sub(lambda match: f"(({match[1]} + {match[2]} - 1) / ({match[2]}))", words)
    return whole_number(whole, names)


def _axes(words: str, names: Mapping[str, int], sizes: Mapping[str, tuple[int | None, ...]]) -> tuple[int | None, ...]:
    inner = re.fullmatch(r"(?:dim3)?\s?[({](?P<sizes>.{1,300})[)}]", words)
    if words in sizes:
        return sizes[words]
    if inner is not None and (words.startswith(("dim3", "{")) or _PRINTED.fullmatch(words)):
        return tuple(_number(size, names) for size in arguments_of(inner["sizes"]))
    return (_number(words, names),)


def _of_grid(axes: tuple[int | None, ...], said: str) -> Iterator[Diagnostic]:
    for axis, most, blocks in zip("xyz", MOST_BLOCKS, axes, strict=False):
        if blocks is not None and not 0 < blocks <= most:
            message = "{blocks} blocks along {axis} of the grid: a launch takes 1 to {most} there"
            help_ = "put the longest axis along x, or loop in the kernel, and skip launches without work"
            yield _found("TOOL011", message, help_, said, blocks=blocks, axis=axis, most=most)


def _of_block(axes: tuple[int | None, ...], said: str) -> Iterator[Diagnostic]:
    known = [one for one in axes if one is not None]
    threads = prod(known)
    help_ = "take fewer threads for each block, and more blocks"
    if threads > MOST_THREADS and 0 not in known:
        yield _found("TOOL011", "{threads} threads are more than the {most} that a block has", help_, said,
                     threads=threads, most=MOST_THREADS)  # fmt: skip
    for axis, most, size in zip("xyz", MOST_OF_AXES, axes, strict=False):
        if size is not None and threads <= MOST_THREADS and not 0 < size <= most:
            message = "{size} threads along {axis} of the block: a block has 1 to {most} there"
            yield _found("TOOL011", message, help_, said, size=size, axis=axis, most=most)


def _of_memory(
    words: str, names: Mapping[str, int], target: Target, said: str, *, allowed: bool
) -> Iterator[Diagnostic]:
    needed = _number(words, names)
    most = target.shared_bytes_per_block
    if needed is None or needed <= STATIC_BYTES:
        return
    if needed > most:
        message = "the launch asks for {needed} bytes of shared memory, {more} more than the {most} of {target}"
        help_ = "take a smaller tile or fewer stages, or a GPU whose blocks have more"
        yield _found("SMEM001", message, help_, said, needed=needed, more=needed - most, most=most, target=target)
    elif not allowed:
        message = (
            "the launch asks for {needed} bytes of shared memory, more than the {static} that one takes unless the "
            "kernel was allowed more before, and nothing in the text allows it"
        )
        help_ = (
            "call cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before the launch"
        )
        yield _found("SMEM001", message, help_, said, needed=needed, static=STATIC_BYTES)


def _found(code: str, message: str, help_: str, said: str, **numbers: object) -> Diagnostic:
    return RULE_OF[code].diagnostic(require(False, message, help=help_, **numbers), said)
