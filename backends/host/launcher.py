"""C++ that launches programs in their turns: `run` encodes the tensor maps, and launches the kernels.

All it knows is the `Schedule`, which `Kernel` and `ProgramKernel` launch too. Numbers of a schedule may be formulas of
dims: those of an `OpenProgram`, of which `run` launches the choice that is for the extents it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from legalsat.backends.host.guards import KEYWORDS, down, require_free, set_lines
from legalsat.backends.host.launcher_parts import LAUNCH, MAPS, asked, encode
from legalsat.backends.host.maps import SMALL_SPAN, enumerator, require_encodable, span_bytes
from legalsat.dims import Amount, Dim, Extent, Open, in_cpp
from legalsat.logic import round_up
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
)
from legalsat.runtime.program import span_bytes as tensor_bytes
from legalsat.runtime.schedule import Schedule, Turn, schedule_of
from legalsat.units.tensor_map import TensorMap

WORKSPACE_ALIGNMENT = 256
TAKEN = frozenset({"at", "stream", "workspace"})
"""Names of the functions' own."""
_OF_A_FILE = frozenset({"host", "address", "down", "launch", "run", "prepare", "message", "workspace_bytes", "plan"})
_OF_A_LAUNCH = frozenset({"at", "stream", "arguments", "error", "tensor_maps"})
_C_TYPES = {f"{sign}{bits}": f"std::{'u' * (sign == 'u')}int{bits}_t" for sign in "ui" for bits in (8, 16, 32, 64)}
_C_TYPES |= {"fp32": "float", "fp64": "double"}


class Way:
    """A schedule as a launcher runs it."""

    def __init__(self, schedule: Schedule) -> None:
        """Take a schedule."""
        self.schedule = schedule
        self.places: dict[str, Extent] = {}
        """Where workspaces begin in the caller's, by field."""
        self.bytes: Extent = 0
        """Of the workspace."""
        for space in schedule.workspaces:
            self.places[space.name] = self.bytes
            self.bytes += round_up(space.bytes, WORKSPACE_ALIGNMENT)

    @property
    def launches(self) -> list[tuple[Turn, Recipe]]:
        """Every launch, in order."""
        return [(turn, recipe) for turn in self.schedule.turns for recipe in turn.program.recipes]

    @property
    def apart(self) -> list[tuple[Operand, Operand]]:
        """The results, each with all operands before it."""
        given, first = self.schedule.operands, len(self.schedule.inputs)
        return [(given[number], other) for number in range(first, len(given)) for other in given[:number]]

    @property
    def kept(self) -> tuple[list[Turn], dict[str, Extent]]:
        """What is made once, and where."""
        places = {one.name: self.places[one.name] for one in self.schedule.workspaces if one.kept}
        return [turn for turn in self.schedule.turns if turn.once], places

    def at_every_call(self) -> Way:
        """Return the way on which nothing is made once."""
        turns = tuple(replace(one, once=False) for one in self.schedule.turns)
        spaces = tuple(replace(one, kept=False) for one in self.schedule.workspaces)
        return Way(replace(self.schedule, turns=turns, workspaces=spaces))


class Launcher:
    """The host's part of programs in their turns, or of an open program, whose dims are parameters of its functions."""

    def __init__(self, program: Program | Schedule | OpenProgram) -> None:
        """Take what is launched; raises `LegalSatError` where a dim's name means something else in a file."""
        self.open = program if isinstance(program, OpenProgram) else None
        if isinstance(program, OpenProgram):
            names = [one.name for one in program.operands]
            laid_out = [dim.name for dim in program.dims if dim.name.startswith("laid_out_")]
            require_free(program.dims, {*names, *laid_out, *KEYWORDS, *TAKEN, *_OF_A_FILE})
            self.ways = [Way(schedule_of(one.program)) for one in program.choices]
            if any(way.kept != self.ways[0].kept for way in self.ways):  # each would read another copy
                self.ways = [way.at_every_call() for way in self.ways]
        else:
            self.ways = [Way(schedule_of(program) if isinstance(program, Program) else program)]
        self.schedule = self.ways[0].schedule
        """Whose operands are those of all ways."""

    @property
    def texts(self) -> list[str]:
        """The texts of kernels, each once, those of relayouts in front of what they are for."""
        return list(dict.fromkeys(text for way in self.ways for text in way.schedule.texts))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims that its functions take."""
        return self.open.dims if self.open else ()

    @property
    def spaces(self) -> list[str]:
        """Names of workspaces."""
        return list(dict.fromkeys(name for way in self.ways for name in way.places))

    @property
    def prepares(self) -> bool:
        """Whether something is made once, by a function of its own."""
        return any(turn.once for turn in self.schedule.turns)

    @property
    def prepared(self) -> list[str]:
        """The parameters of `prepare`."""
        constants = (f"void const *{one.name}" for one in self.schedule.constants)
        return [*constants, "void *workspace", *self.sizes, "cudaStream_t stream"]

    @property
    def sizes(self) -> list[str]:
        """The parameters that the dims are."""
        return [f"std::int64_t {dim}" for dim in self.dims]

    @property
    def parameters(self) -> list[str]:
        """The parameters of `run`."""
        return [
            *(f"void const *{one.name}" for one in self.schedule.inputs),
            *(f"void *{one.name}" for one in self.schedule.outputs),
            "void *workspace",
            *self.sizes,
            "cudaStream_t stream",
        ]

    @cached_property
    def launches(self) -> list[tuple[Turn, Recipe]]:
        """Every launch of every way."""
        return [launch for way in self.ways for launch in way.launches]

    @cached_property
    def maps(self) -> list[TensorMap]:
        """The tensor maps that differ in more than where the tensor lies."""
        return list(dict.fromkeys(replace(one.map, address=0) for one in self._map_arguments()))

    def _map_arguments(self) -> Iterator[MapArgument]:
        for _, recipe in self.launches:
            for argument in recipe.arguments:
                if isinstance(argument, MapsArgument):
                    yield from argument.maps
                elif isinstance(argument, MapArgument):
                    yield argument

    @cached_property
    def sentences(self) -> list[str]:
        """What the codes -1, -2, ... of `run` mean."""
        found = [f"{one.name} {_misaligned(one)}" for way in self.ways for one in way.schedule.operands]
        found += [f"{result.name} overlaps {other.name}" for result, other in self.ways[0].apart]
        if any(way.bytes != 0 for way in self.ways):
            found += [f"workspace is null, or its address is no multiple of {WORKSPACE_ALIGNMENT}"]
        found += [self.open.guard] if self.open else []
        found += ["the driver has no function that encodes tensor maps", *self._refusals] if self.maps else []
        return list(dict.fromkeys(found))

    @property
    def _refusals(self) -> list[str]:
        return [f"the driver refuses the {tm}" for tm in self.maps]

    def code(self, sentence: str) -> int:
        """Return the code of a sentence."""
        return -1 - self.sentences.index(sentence)

    def text(self, kernels: Mapping[tuple[str, str], str] | None = None) -> str:
        """Return the text, which stands behind the kernels.

        Args:
            kernels: what the runtime knows a kernel by, an expression of type `void const *`, by the text and the
                kernel's name in it; the function of that name in the same file where it says nothing.
        """
        named = kernels or {}
        return "\n".join(
            [
                "// How it is called. Everything from here on runs on the host.",
                *(f"#include <{name}>" for name in ("cuda.h", "cuda_runtime.h", "cstddef", "cstdint")),
                "",
                "namespace host {",
                "namespace {",
                "",
                *self._addresses(),
                *(self._tensor_maps() if self.maps else []),
                *LAUNCH,
                *(line for number, one in enumerate(self.launches) for line in self._launch(number, *one, named)),
                "}  // namespace",
                "}  // namespace host",
                "",
                'extern "C" {',
                "",
                *self._functions(),
                '}  // extern "C"',
                "",
            ]
        )

    def _addresses(self) -> list[str]:
        names = [*(one.name for one in self.schedule.operands), *self.spaces]
        sizes = [f"    std::int64_t {', '.join(dim.name for dim in self.dims)};"] if self.dims else []
        return ["struct Addresses {", f"    std::uint64_t {', '.join(names)};", *sizes, "};", "", *self._sets()]

    def _sets(self) -> Iterator[str]:
        """Yield the functions that say which extents a way is for."""
        if self.open is None:
            return
        sets = [set_lines(self.open.dims, one.set) for one in self.open.choices]
        if any("= down(" in line for lines in sets for line in lines):
            yield from down()
        for number, lines in enumerate(sets):
            yield f"bool takes_{number}({', '.join(self.sizes)}) {{"
            yield from (f"    {line}" for line in lines)
            yield from ("}", "")

    def _tensor_maps(self) -> list[str]:
        lines = [*MAPS, ""]
        if self.open:
            for number, (tm, refusal) in enumerate(zip(self.maps, self._refusals, strict=True)):
                body = _row(tm, self.code(refusal), "at.")
                lines += [f"// {tm}", f"Map tensor_map_{number}(Addresses const &{'at' if tm.dims else ''}) {{"]
                lines += [f"    return {body[0].lstrip()}", *body[1:-1], f"{body[-1].removesuffix(',')};", "}", ""]
        else:
            lines += ["Map const tensor_maps[] = {"]
            for tm, refusal in zip(self.maps, self._refusals, strict=True):
                lines += [f"    // {tm}", *_row(tm, self.code(refusal))]
            lines += ["};"]
        missing = self.code("the driver has no function that encodes tensor maps")
        tiled, im2col = (any(tm.mode == mode for tm in self.maps) for mode in ("tiled", "im2col"))
        return [*lines, "", *asked(missing), *encode(tiled=tiled, im2col=im2col)]

    def _launch(self, number: int, turn: Turn, recipe: Recipe, kernels: Mapping[tuple[str, str], str]) -> list[str]:
        text = turn.program.text
        names = parameter_names(text, recipe.entry, len(recipe.arguments))
        lines = [f"// {turn.what}", f"int launch_{number}(Addresses const &at, cudaStream_t stream) {{"]
        for name, argument in zip(names, recipe.arguments, strict=True):
            lines += [f"    {line}" for line in self._argument(name, argument, turn.places)]
        kernel = kernels.get((text, recipe.entry), f"reinterpret_cast<void const *>({recipe.entry})")
        x, y, z = (_unsigned(one) for one in recipe.grid)
        flags = ", ".join(str(flag).lower() for flag in (recipe.dependent, recipe.cooperative))
        return [
            *lines,
            f"    void *arguments[] = {{{', '.join(f'&{name}' for name in names) or 'nullptr'}}};",
            f"    return launch({kernel},",
            f"                  dim3({x}, {y}, {z}), {recipe.threads}, {recipe.shared}, "
            f"dim3({', '.join(map(str, recipe.cluster))}), {flags}, arguments, stream);",
            "}",
            "",
        ]

    def _argument(self, name: str, argument: Argument, places: Mapping[str, AddressArgument]) -> list[str]:
        if isinstance(argument, NumberArgument):
            return [f"{_C_TYPES[argument.type]} {name} = {_literal(argument)};"]
        if isinstance(argument, AddressArgument):
            return [f"std::uint64_t {name} = {_address(argument, places)};"]
        several = argument.maps if isinstance(argument, MapsArgument) else (argument,)
        lines = [f"CUtensorMap {name}[{len(several)}];"]
        for place, one in enumerate(several):
            row = self.maps.index(replace(one.map, address=0))
            known = f"tensor_map_{row}(at)" if self.open else f"tensor_maps[{row}]"
            lines.append(f"if (int error = encode({name} + {place}, {known}, {_address(one, places)})) return error;")
        return lines

    def _functions(self) -> Iterator[str]:
        yield from self._workspace_bytes()
        yield ""
        yield "char const *message(int code) {"
        yield "    static char const *const said[] = {"
        yield from (f'        "{sentence}",' for sentence in self.sentences)
        yield "    };"
        yield "    if (code >= 0) return cudaGetErrorString(static_cast<cudaError_t>(code));"
        yield f'    return code >= -{len(self.sentences)} ? said[-1 - code] : "no such code";'
        yield "}"
        yield ""
        if self.prepares:
            yield from self._each_way("prepare", self.prepared, once=True)
            yield ""
        yield from self._each_way("run", self.parameters, once=False)

    def _workspace_bytes(self) -> Iterator[str]:
        if self.open is None:
            yield f"std::size_t workspace_bytes() {{ return {self.ways[0].bytes}; }}"
            return
        yield f"std::size_t workspace_bytes({', '.join(self.sizes)}) {{"
        given = ", ".join(dim.name for dim in self.dims)
        for number, way in enumerate(self.ways):
            yield f"    if (host::takes_{number}({given})) return {in_cpp(way.bytes)};"
        yield "    return 0;  // `run` refuses such extents"
        yield "}"

    def _each_way(self, function: str, parameters: list[str], *, once: bool) -> Iterator[str]:
        """Yield a function that does of each way what is done once, or at every call."""
        if self.open is None:
            yield f"int {function}({', '.join(parameters)}) {{"
            yield from self._way(self.ways[0], 0, once=once)
            yield "}"
            return
        first = 0
        for number, way in enumerate(self.ways):
            yield f"static int {function}_{number}({', '.join(parameters)}) {{"
            yield from self._way(way, first, once=once)
            yield from ("}", "")
            first += len(way.launches)
        names = ", ".join(re.findall(r"\w+", one)[-1] for one in parameters)
        sizes = ", ".join(dim.name for dim in self.dims)
        yield f"int {function}({', '.join(parameters)}) {{"
        for number in range(len(self.ways)):
            yield f"    if (host::takes_{number}({sizes})) return {function}_{number}({names});"
        yield f"    return {self.code(self.open.guard)};"
        yield "}"

    def _way(self, way: Way, first: int, *, once: bool) -> Iterator[str]:
        """Lines of one way, whose launches are numbered from `first`: checks, memory that is cleared, and launches."""
        given = way.schedule.constants if once else way.schedule.operands
        yield from self._checks(way, given, [] if once else way.apart)
        for space in way.schedule.workspaces:
            if space.zeroed and space.kept == once:
                place = f"static_cast<char *>(workspace) + {in_cpp(way.places[space.name])}"
                size = in_cpp(space.bytes)
                yield f"    if (int error = cudaMemsetAsync({place}, 0, {size}, stream)) return error;"
        *before, last = (number for number, (turn, _) in enumerate(way.launches, start=first) if turn.once == once)
        yield from (f"    if (int error = host::launch_{number}(at, stream)) return error;" for number in before)
        yield f"    return host::launch_{last}(at, stream);"

    def _checks(self, way: Way, given: Sequence[Operand], apart: Sequence[tuple[Operand, Operand]]) -> Iterator[str]:
        """Lines that judge what a function was given, and name every address."""
        known = {one.name for one in given}
        values = [f"host::address({one.name})" if one.name in known else "0" for one in self.schedule.operands]
        values += [
            f"host::address(workspace) + {_inside(way.places[name], '')}" if name in way.places else "0"
            for name in self.spaces
        ]
        values += [dim.name for dim in self.dims]
        yield f"    host::Addresses const at{{{', '.join(values)}}};"
        for one in given:
            if one.tensor.align > 1:
                code = self.code(f"{one.name} {_misaligned(one)}")
                behind = f"(at.{one.name} - {one.tensor.offset})" if one.tensor.offset else f"at.{one.name}"
                yield f"    if ({behind} % {one.tensor.align} != 0) return {code};"
        for result, other in apart:
            end, behind = (f"at.{one.name} + {_inside(tensor_bytes(one.tensor))}" for one in (result, other))
            meet = f"at.{other.name} < {end} && at.{result.name} < {behind}"
            yield f"    if ({meet}) return {self.code(f'{result.name} overlaps {other.name}')};"
        if way.bytes != 0:
            code = self.code(f"workspace is null, or its address is no multiple of {WORKSPACE_ALIGNMENT}")
            wrong = f"workspace == nullptr || host::address(workspace) % {WORKSPACE_ALIGNMENT} != 0"
            yield f"    if ({wrong}) return {code};"
        else:
            yield "    static_cast<void>(workspace);"


def parameter_names(text: str, entry: str, count: int) -> list[str]:
    """Return what a kernel's text calls its parameters, in CUDA C++ or PTX; numbered names where it says no such."""
    found = re.search(rf"(?:__global__|\.entry)[^;{{]*?\b{re.escape(entry)}\s*\(([^()]*)\)", text)
    words = (
        [] if found is None else [re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*?\]", "", p)) for p in found[1].split(",")]
    )
    names = [one[-1] for one in words if one]
    if len(names) != count or len(set(names)) != count:
        return [f"argument{number}" for number in range(count)]
    return [f"{name}_" if name in _OF_A_LAUNCH else name for name in names]


def _address(argument: AddressArgument | MapArgument, places: Mapping[str, AddressArgument]) -> str:
    place = places[argument.operand]
    offset = argument.offset + place.offset
    if isinstance(offset, Open):
        return f"at.{place.operand} + {_inside(offset)}"
    plus = f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
    return f"at.{place.operand}{plus}"


def _literal(argument: NumberArgument) -> str:
    if argument.type in ("fp32", "fp64"):
        return float(argument.value).hex() + "f" * (argument.type == "fp32")
    if isinstance(argument.value, Open):
        return f"static_cast<{_C_TYPES[argument.type]}>({in_cpp(argument.value, 'at.')})"
    value = int(argument.value)
    return f"{value}u" if value >= 2**63 else "-9223372036854775807 - 1" if value == -(2**63) else str(value)


def _inside(extent: Amount, prefix: str = "at.") -> str:
    """Return a number of bytes as it stands in a sum of addresses."""
    return f"static_cast<std::uint64_t>({in_cpp(extent, prefix)})" if isinstance(extent, Open) else str(extent)


def _unsigned(extent: Extent) -> str:
    return f"static_cast<unsigned>({in_cpp(extent, 'at.')})" if isinstance(extent, Open) else str(extent)


def _misaligned(one: Operand) -> str:
    behind = f"{one.tensor.offset} bytes behind " if one.tensor.offset else ""
    return f"does not start {behind or 'at '}a multiple of {one.tensor.align} bytes"


def _row(tm: TensorMap, code: int, prefix: str = "") -> list[str]:
    """Return a map as an aggregate of `Map`, `code` being what `run` returns if the driver does not take it."""
    require_encodable(tm, "map")
    lists = [tm.global_dim, tm.global_stride or (0,), tm.box if tm.mode == "tiled" else (0,), tm.element_stride]
    numbers = ", ".join(f"{{{', '.join(_element(n, prefix) for n in one)}}}" for one in lists)
    enums = [enumerator(tm, field) for field in ("interleave", "swizzle", "l2_promotion", "oob_fill")]
    span = span_bytes(tm)
    small = str(span < SMALL_SPAN).lower() if isinstance(span, int) else f"{in_cpp(span, prefix)} < {SMALL_SPAN}"
    last = f"{small}, {code}"
    if tm.mode != "tiled":
        corners = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in (tm.lower_corner, tm.upper_corner))
        last += f", {corners}, {tm.channels}, {tm.pixels}"
    return [
        f"    {{{enumerator(tm, 'dtype')}, {tm.rank}, {numbers},",
        f"     {', '.join(enums[:2])},",
        f"     {', '.join(enums[2:])}, {last}}},",
    ]


def _element(extent: Extent, prefix: str) -> str:
    if isinstance(extent, int):
        return f"{extent}u" if extent >= 2**63 else str(extent)
    return f"static_cast<cuuint64_t>({in_cpp(extent, prefix)})"


def described(schedule: Schedule) -> list[str]:
    """Return the operands of a schedule and what their memory must be, in words."""
    lines = []
    for one in schedule.operands:
        shape, strides = (
            f"({', '.join(map(str, n))}{',' * (len(n) == 1)})" for n in (one.tensor.shape, one.tensor.strides)
        )
        of = f"shape {shape}, strides {strides} in elements" if one.tensor.shape else "one number"
        place = _misaligned(one).removeprefix("does not start ")
        lines.append(f"{one.name}: {one.tensor.dtype}, {of}, {tensor_bytes(one.tensor)} bytes {place}")
    return lines
