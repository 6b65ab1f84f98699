"""Shared memory that a text says a kernel needs, or that its tile, stages and type need, beside what a block has.

A pipelined product keeps in shared memory, for each stage, BLOCK_M x BLOCK_K and BLOCK_K x BLOCK_N elements. Where the
text prints the need too, what the stages leave of it lies beside them: barriers, scales, a tile of the epilogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.pasted.code.host_code import constants
from legalsat.pasted.grammar import compiled, without_layouts
from legalsat.rule import require
from legalsat.rules.movement import shared_memory_exceeded
from legalsat.targets import TARGETS, Target

MOST_TILES, MOST_BLOCK, MOST_STAGES = 64, 4096, 64
_LONGEST = 400  # characters of a line that are read
_BARRIERS = 4096  # bytes beside the stages that need no explanation
_STATIC = 48 * 1024  # bytes that a kernel may declare, or launch with unless it asks for more
_PLAUSIBLE = range(1024, 1 << 26)  # bytes of shared memory

_TIMES = re.compile(r"(?<![\w.])(?<!\* )(\d{1,4}) ?\* ?(1024)\b(?! ?\*)")
_ASKED_FOR = re.compile(r"(MaxDynamicSharedMemorySize,|MAX_DYNAMIC_SHARED_SIZE_BYTES,) ?([A-Za-z_]\w{0,60})\b")
# What programs print whose two numbers are known by their places.
_SENTENCES = (
    r"(?:shared memory|out of resource: (?!tensor memory|threads|registers)[\w.]{1,120}),? Required: (?P<need>\d{1,9})"
    r",? Hardware limit: ?(?P<limit>\d{1,9})",
    r"OutOfResources\((?P<need>\d{1,9}), (?P<limit>\d{1,9}), 'shared memory'\)",
    r"uses too much shared data \((?P<need>0x[0-9a-f]{1,8}) bytes, (?P<limit>0x[0-9a-f]{1,8}) max",
    r"launch shared memory exceeds [^\n]{0,80} allowed\. Allocated: (?P<need>\d{1,9}) bytes\. Max: (?P<limit>\d{1,9})",
    r"[Ff]ailed to set the allowed dynamic shared memory size (?:for [\w:]{1,80} )?to (?P<need>\d{1,9})",
    r"MaxDynamicSharedMemorySize(?:,|\)? to| =)? ?(?P<need>\d{4,7})\b",
    r"Setting smem size to (?P<need>\d{1,9})(?=[\s\S]{0,400}(?:cudaFuncSetAttribute|Error Internal))",
    r"\bshared_?mem\w*=(?P<opt_in>\d{5,7})\b(?=[\s\S]{0,2000}(?:CUDA_ERROR_INVALID_VALUE|cudaErrorInvalidValue))",
)
_SHARED = re.compile(r"\bLDS\b|(?:shared|threadgroup)[ _]?mem|(?<!d)smem|shared[ _]?storage|shared_memory", re.I)
_OF_PROCESSES = re.compile(r"\bworkers?\b|/dev/shm|shm[-_]size|\bipc\b|\bpid\b", re.I)  # memory that processes share
_FAILS = re.compile(
    r"exceed|more .{0,40}than|larger than|greater than|too (?:much|large|big|high)|not enough|insufficient|out of|"
    r"(?:not|n't|no longer) fit|large amount|fail|lack|unable|cannot|invalid",
    re.I,
)
_AMOUNT = re.compile(
    r"(?<![\w.])(?<!% )(?<!%)(?P<bytes>\d{1,3}(?:,\d{3})+|\d{4,9})\b(?!\.\d)|"
    r"\b(?P<kib>\d{1,4}(?:\.\d{1,3})?) ?(?:Ki?B|KByte)",
    re.I,
)
_BEFORE_LIMIT = re.compile(
    r"(?:limit\w*|max\w*|available|only|exceed\w*|than|allow\w*|supports?|ha(?:s|ve)|capacity|<=?|>=?|up to|"
    r"opt-?in)\W{0,3}"
    r"(?:\w+\W{1,3}){0,3}$",
    re.I,
)
_AFTER_LIMIT = re.compile(
    r"^[ -]{0,2}(?:bytes?|B)?[ -]{0,2}(?:\w+ )?(?:limit|maximum|max\b|available|budget|cap\b)", re.I
)
_IS = r"['\"]?\s*(?::\s*(?:tl\.)?constexpr\s*=|[:=])\s*"
_SETTING = re.compile(
    rf"\b(?:k?block(?:_?size)?|tile(?:_?size)?|blk|cta(?:_?tile)?|b)_?(?P<axis>[mnk]){_IS}(?P<extent>\d{{1,5}})\b"
    rf"|\b(?:k|num_?|n_)?(?:ab_|pipeline_|pipe_|mainloop_)?stages?{_IS}(?P<stages>\d{{1,3}})\b"
    r"|\bStageCount<(?P<count>\d{1,3})>|(?<![\w.])(?P<words>\d{1,2})[- ]stages?\b"
    r"|\b(?:TileShape\w*|CtaTile\w*|tile_shape\w*|BlockShape|block_shape_mnk|tile)\W{0,8}?"
    r"(?:=|:)?\s*(?:cute::)?(?:tuple|Shape)?\s*[<(\[]\s*(?:cute::)?(?:C<|_)?(?P<m>\d{1,5})>?\s*,\s*(?:cute::)?(?:C<|_)?"
    r"(?P<n>\d{1,5})>?\s*,\s*(?:cute::)?(?:C<|_)?(?P<k>\d{1,5})>?\s*[>)\]]"
    r"|\b(?:tile|threadblock|cta)\w*\W{1,4}(?P<m1>\d{2,5}) ?[x×] ?(?P<n1>\d{1,5}) ?[x×] ?(?P<k1>\d{1,5})\b"
    r"|\b(?:Threadblock|Gemm)Shape\w*\s?<\s?(?P<m11>\d{1,5})\s?,\s?(?P<n11>\d{1,5})\s?,\s?(?P<k11>\d{1,5})\s?>",
    re.I,
)
_STAGES = re.compile(r"stage", re.I)
_OF_SUMS = re.compile(r"\b(?:acc\w*|out\w*|[cd]_d?type|scale\w*)\W{1,4}(?:torch\.|tl\.|cutlass\.)?\w+", re.I)
_TYPE = re.compile(
    r"(?<![A-Za-z0-9])(?:bf16|bfloat16|fp16|float16|f16|half|fp8\w{0,8}|float8\w{0,12}|e4m3\w{0,4}|e5m2\w{0,4}|int8|s8|"
    r"fp32|float32|tf32)(?![A-Za-z0-9])",
    re.I,
)
_STAGED = re.compile(  # where results lie before they are stored
    r"\b(?:staging|epilogue|output|store)[ _-]?(?:tile|buffer|smem|area)\b[^.\n]{0,16}?\b(?P<m>\d{2,4}) ?[x×] ?"
    r"(?P<n>\d{2,4})\b(?! ?[x×])(?: (?:of )?(?P<type>\w{2,12}))?",
    re.I,
)
_ONLY_FLOATS = re.compile(r"\bfloats?\b|\bsgemm\b", re.I)
_PAIRED = re.compile(r"num_ctas\W{1,4}2|two_?ctas|2cta|cta_group\W{1,4}2", re.I)


class Need(NamedTuple):
    """Bytes of shared memory that a text says are needed, and the limit that it says; None for what it does not."""

    bytes: int | None
    limit: int | None
    where: str


class Tile(NamedTuple):
    """The tile of a product, its stages, and the bytes of an element of both operands; None where nobody says them."""

    m: int
    n: int
    k: int
    stages: int
    size: int | None

    @property
    def stage(self) -> int:
        """Bytes of one stage, at least."""
        return (self.m * self.k + self.k * self.n) * (self.size or 1)

    def __str__(self) -> str:
        size = "at least 1 byte" if self.size is None else f"{self.size} byte{'s' * (self.size > 1)}"
        return f"{self.stages} stages of {self.m} x {self.k} and {self.k} x {self.n} elements of {size}"


class Fitted(NamedTuple):
    """A tile that explains a need: how many of its stages lie in shared memory, and the bytes beside them."""

    tile: Tile
    buffers: int
    rest: int

    @property
    def bytes(self) -> int:
        """Bytes of all of it."""
        return self.buffers * self.tile.stage + self.rest


def _plain(text: str) -> str:
    """Return a text with products of numbers as one, and the number of a name that a launch asks for."""
    text = _TIMES.sub(lambda match: str(int(match[1]) * int(match[2])), text)
    if not _ASKED_FOR.search(text):
        return text
    names = constants(text)
    return _ASKED_FOR.sub(lambda match: f"{match[1]} {names.get(match[2], match[2])}", text)


def explain_shared(text: str, target: Target, code: str = "") -> Iterator[Diagnostic]:
    """Yield the shared memory that an even text says is lacking, or that its tile lacks on `target`; one diagnostic.

    A need that is printed is explained by the tiles of `code`, the text and what is beside it.
    """
    text = _plain(text)
    tiles = list(_printed_tiles(text))
    needs = list(dict.fromkeys(_printed_needs(text)))
    need = next((one for one in needs if one.bytes is not None), next(iter(needs), None))
    if need is not None:
        yield _of_need(need, list(_printed_tiles(_plain(code))) or tiles, target)
        return
    limit = target.shared_bytes_per_block
    worst = max((_alone(one, target) for one in tiles), key=lambda one: one.bytes, default=None)
    # A pair of CTAs shares an operand, by halves that the text does not say.
    if worst is None or _PAIRED.search(text):
        return
    staged = 0 if worst.bytes > limit else _staged(text, worst.tile.size or 1)
    if (all_ := worst.bytes + staged) > limit:
        over = f"{all_} bytes of shared memory, {all_ - limit} more than the {limit} of {target}"
        beside = f", with a tile of {staged} bytes beside them for what is stored," if staged else ""
        help_ = _help(worst._replace(rest=staged), limit)
        found = _diagnostic(f"{_in_buffers(worst)}{beside} take {over}", help_, "the tile that is printed")
        yield replace(found, level="warning") if staged else found  # which may lie where stages did


def _staged(text: str, size: int) -> int:
    """Return the bytes of the first tile that a text says results are staged in, `size` an element if it says no type.

    0 where it says of none.
    """
    match = _STAGED.search(text)
    if match is None:
        return 0
    sizes = _sizes(match["type"] or "")
    return int(match["m"]) * int(match["n"]) * (sizes.pop() if len(sizes) == 1 else size)


def _alone(tile: Tile, target: Target) -> Fitted:
    """Return what a tile takes at least if nothing says what it needs: pipelines of mma read one stage in registers."""
    asynchronous = target.wgmma is not None or target.tcgen05 is not None
    return Fitted(tile, tile.stages if asynchronous else max(tile.stages - 1, 1), 0)


def shared_memory_told(text: str, target: Target) -> list[str]:
    """Return what each tile in an even text takes of a block's shared memory, in words."""
    limit = target.shared_bytes_per_block
    fitted = [_alone(one, target) for one in _printed_tiles(text)]
    return [f"{_in_buffers(one)} take {one.bytes} of {limit} bytes of shared memory" for one in fitted]


def shared_memory_suffices(text: str) -> bool:
    """Whether an even text prints what is needed of shared memory and a limit, which is not below it."""
    lines = (line[:_LONGEST] for line in text.split("\n") if _is_of_shared(line))
    told = [need for line in islice(lines, MOST_TILES) if (need := _of_line(line)) is not None]
    needs = [one.bytes for one in told if one.bytes is not None]
    limits = [one.limit for one in told if one.limit is not None]
    beside = all(one.bytes <= one.limit for one in told if one.bytes is not None and one.limit is not None)
    return bool(needs and limits) and beside and max(needs) <= max(limits)


def _number(word: str) -> int:
    """Return what digits say, which may begin with zeros."""
    return int(word, 16 if word[:2].lower() == "0x" else 10)


def _printed_needs(text: str) -> Iterator[Need]:
    """Yield what an even text says of shared memory that is lacking, sentences of known programs first."""
    for pattern in _SENTENCES:
        for match in islice(compiled(pattern).finditer(text), MOST_TILES):
            where = f'text "{match[0][:97]}"'.replace("\n", " ")
            words = {name: _number(word) for name, word in match.groupdict().items() if word is not None}
            if words.get("opt_in", _STATIC + 1) > _STATIC:  # a launch may ask for so much without saying so first
                limit = words.get("limit", _STATIC if "opt_in" in words else None)
                yield Need(words.get("opt_in", words.get("need")), limit, where)
    lines = text.split("\n")
    # What a line leaves to the next one, such as "limit exceeded:", stands there.
    told = (
        f"{line} {more}" if _AMOUNT.search(line) is None else line
        for line, more in zip(lines, [*lines[1:], ""], strict=True)
        if _is_of_shared(line)
    )
    for line in islice((without_layouts(line[:_LONGEST]) for line in told), MOST_TILES):
        need = _of_line(line)
        if need is not None and (_FAILS.search(line) or (need.bytes or 0) > (need.limit or need.bytes or 0)):
            yield need


def _is_of_shared(line: str) -> bool:
    """Whether a line speaks of a block's shared memory."""
    return _SHARED.search(line) is not None and _OF_PROCESSES.search(line) is None


def _of_line(line: str) -> Need | None:
    needed: list[int] = []
    limits: list[int] = []
    for match in islice(_AMOUNT.finditer(line), 8):
        amount = int(match["bytes"].replace(",", "")) if match["bytes"] else int(float(match["kib"]) * 1024)
        if amount in _PLAUSIBLE:
            of_limit = _BEFORE_LIMIT.search(line[: match.start()]) or _AFTER_LIMIT.match(line[match.end() :])
            (limits if of_limit else needed).append(amount)
    if not needed and len(limits) == 2:  # such as "131072 > 101376"
        needed = [limits.pop(0)]
    if not limits and not needed:
        return None
    return Need(max(needed, default=None), min(limits, default=None), f'line "{line[:97]}"')


def _printed_tiles(text: str) -> Iterator[Tile]:
    """Yield the tiles of products whose three extents and stages a text prints, in its order, each once."""
    if not _STAGES.search(text):  # none without its stages, and most texts say nothing of them
        return
    sizes = _sizes(text)
    size = next(iter(sizes)) if len(sizes) == 1 else None
    found: dict[str, int] = {}
    told: set[Tile] = set()
    for match in islice(_SETTING.finditer(text), 16 * MOST_TILES):
        words = {name: word for name, word in match.groupdict().items() if word is not None}
        if "axis" in words:
            setting = {words["axis"].lower(): int(words["extent"])}
        elif counted := words.get("stages") or words.get("count") or words.get("words"):
            setting = {"stages": int(counted)}
        else:
            setting = {name.rstrip("1"): int(word) for name, word in words.items()}
        if any(found.get(name, value) != value for name, value in setting.items()):
            found = {}  # another configuration begins
        found |= setting
        if len(found) == 4 and all(0 < found[axis] <= MOST_BLOCK for axis in "mnk"):
            tile = Tile(found["m"], found["n"], found["k"], found["stages"], size)
            if 0 < tile.stages <= MOST_STAGES and tile not in told and len(told) < MOST_TILES:
                told.add(tile)
                yield tile


def _sizes(text: str) -> set[int]:
    """Return the bytes of an element by the operand types that a text names."""
    sizes = set()
    if _ONLY_FLOATS.search(text) and not _TYPE.search(text):
        return {4}
    for match in islice(_TYPE.finditer(_OF_SUMS.sub(" ", text)), MOST_TILES):
        name = match[0].lower()
        try:
            sizes.add(as_dtype(name).bytes)
        except InvalidInput:
            sizes.add(1)  # an 8-bit type under one of its many names
    return sizes


def _of_need(need: Need, tiles: list[Tile], target: Target) -> Diagnostic:
    limit = need.limit or target.shared_bytes_per_block
    others = "" if limit == target.shared_bytes_per_block else _whose(limit, target)
    if need.bytes is None:
        message = f"the kernel needs more shared memory than the {limit} bytes of a block{others}"
        return _diagnostic(message, "", need.where)
    fitted = _explained(need.bytes, tiles, target)
    said = ""
    if fitted is not None:
        rest = f", {fitted.rest} lie beside them" if fitted.rest else ""
        said = f"; {_in_buffers(fitted)} take {fitted.buffers * fitted.tile.stage} of them{rest}"
    if need.bytes > limit:
        over = f"{need.bytes - limit} more than the {limit} of {'a block' if need.limit else target}"
        message = f"the kernel needs {need.bytes} bytes of shared memory, {over}{others}{said}"
    elif need.limit:
        declares = f"beside what it declares, and a block has {limit} in all"
        message = f"the kernel needs {need.bytes} bytes of shared memory {declares}{others}{said}"
    else:
        has = f"a block of {target} has {limit}, other GPUs less"
        if need.bytes >= _STATIC:
            has += f", and {_STATIC} with what the kernel declares unless the launch asks for more"
        message = f"the kernel was refused {need.bytes} bytes of shared memory; {has}{said}"
    return _diagnostic(message, "" if fitted is None else _help(fitted, limit), need.where)


def _in_buffers(fitted: Fitted) -> str:
    tile = fitted.tile._replace(stages=fitted.buffers)
    return str(tile) if fitted.buffers == fitted.tile.stages else f"{tile}, one less than asked for,"


def _whose(limit: int, target: Target) -> str:
    """Return in words which GPUs have a limit that is not the target's."""
    if limit == _STATIC:
        return "; it is the limit of memory that is declared, or of a launch that did not ask for more"
    owners = [one.name for one in TARGETS.values() if one.device is None and one.shared_bytes_per_block == limit]
    has = f"{target} has {target.shared_bytes_per_block}"
    return f"; {has}, the text is of a GPU such as {owners[0]}" if owners else f"; {has}"


def _explained(bytes_: int, tiles: list[Tile], target: Target) -> Fitted | None:
    """Return the tile that leaves the least of a need; None if none explains it.

    It does by all of its stages, or all but one where one is in registers. Where the type is not printed, one that
    leaves next to nothing does.
    """
    fits = []
    for tile in tiles:
        for size in (tile.size,) if tile.size else (1, 2, 4):
            one = tile._replace(size=size)
            most = one.stage if tile.size else _BARRIERS
            for buffers in {one.stages, _alone(one, target).buffers}:
                rest = bytes_ - buffers * one.stage
                if buffers and 0 <= rest < most:
                    fits.append(Fitted(one, buffers, rest))
    return min(fits, key=lambda one: (one.rest, one.buffers != one.tile.stages), default=None)


def _help(fitted: Fitted, limit: int) -> str:
    """Return the fewest changes after which the stages and what lies beside them fit."""
    tile, buffers, rest = fitted
    ways = []
    fewer = min((limit - rest) // tile.stage, buffers - 1)
    if fewer >= 1:
        ways.append(f"{tile.stages - (buffers - fewer)} stages ({rest + fewer * tile.stage} bytes)")
    for axis, name in (("k", "BLOCK_K"), ("n", "BLOCK_N"), ("m", "BLOCK_M")):
        half = tile._replace(**{axis: getattr(tile, axis) // 2})
        if getattr(tile, axis) >= 32 and rest + buffers * half.stage <= limit:
            ways.append(f"{name} {getattr(half, axis)} with {tile.stages} stages ({rest + buffers * half.stage} bytes)")
            break
    return f"take {' or '.join(ways)}" if ways else ""


def _diagnostic(message: str, help_: str, where: str) -> Diagnostic:
    change = help_ or "take a smaller tile or fewer stages (num_stages), or a GPU whose blocks have more"
    return shared_memory_exceeded.diagnostic(
        require(False, "{said}", help="{change}", said=message, change=change), where
    )
