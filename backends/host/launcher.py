"""C++ that launches programs in their turns: `run` encodes the tensor maps, and launches the kernels.

All it knows is the `Schedule`, which `Kernel` and `ProgramKernel` launch too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from legalsat.backends.host.launcher_parts import LAUNCH, MAPS, asked, encode
from legalsat.backends.host.maps import SMALL_SPAN, enumerator, require_encodable, span_bytes
from legalsat.logic import round_up
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Recipe,
)
from legalsat.runtime.program import span_bytes as tensor_bytes
from legalsat.runtime.schedule import Schedule, Turn
from legalsat.tensor import plain
from legalsat.units.tensor_map import TensorMap

WORKSPACE_ALIGNMENT = 256
_C_TYPES = {f"{sign}{bits}": f"std::{'u' * (sign == 'u')}int{bits}_t" for sign in "ui" for bits in (8, 16, 32, 64)}
_C_TYPES |= {"fp32": "float", "fp64": "double"}
_TAKEN = frozenset({"at", "stream", "arguments", "error", "tensor_maps"})  # names of a launch's own


class Launcher:
    """The host's part of programs in their turns."""

    def __init__(self, schedule: Schedule) -> None:
        """Take a schedule."""
        self.schedule = schedule
        self.places: dict[str, int] = {}
        """Where workspaces begin in the caller's, by field."""
        self.bytes = 0
        """Of the workspace."""
        for space in schedule.workspaces:
            self.places[space.name] = self.bytes
            self.bytes += round_up(space.bytes, WORKSPACE_ALIGNMENT)

    @property
    def prepares(self) -> bool:
        """Whether something is made once, by a function of its own."""
        return any(turn.once for turn in self.schedule.turns)

    @property
    def prepared(self) -> list[str]:
        """The parameters of `prepare`."""
        constants = (f"void const *{one.name}" for one in self.schedule.constants)
        return [*constants, "void *workspace", "cudaStream_t stream"]

    @property
    def parameters(self) -> list[str]:
        """The parameters of `run`."""
        return [
            *(f"void const *{one.name}" for one in self.schedule.inputs),
            *(f"void *{one.name}" for one in self.schedule.outputs),
            "void *workspace",
            "cudaStream_t stream",
        ]

    @cached_property
    def launches(self) -> list[tuple[Turn, Recipe]]:
        """Every launch, in order."""
        return [(turn, recipe) for turn in self.schedule.turns for recipe in turn.program.recipes]

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
        found = [f"{one.name} {_misaligned(one)}" for one in self.schedule.operands]
        found += [f"{result.name} overlaps {other.name}" for result, other in self._apart]
        found += [f"workspace is null, or its address is no multiple of {WORKSPACE_ALIGNMENT}"] if self.bytes else []
        return found + (["the driver has no function that encodes tensor maps", *self._refusals] if self.maps else [])

    @property
    def _apart(self) -> list[tuple[Operand, Operand]]:
        """The results, each with all operands before it."""
        given, first = self.schedule.operands, len(self.schedule.inputs)
        return [(given[number], other) for number in range(first, len(given)) for other in given[:number]]

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
        names = [*(one.name for one in self.schedule.operands), *self.places]
        return ["struct Addresses {", f"    std::uint64_t {', '.join(names)};", "};", ""]

    def _tensor_maps(self) -> list[str]:
        lines = [*MAPS, "", "Map const tensor_maps[] = {"]
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
        x, y, z = recipe.grid
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
            lines.append(
                f"if (int error = encode({name} + {place}, tensor_maps[{row}], {_address(one, places)})) return error;"
            )
        return lines

    def _functions(self) -> Iterator[str]:
        yield f"std::size_t workspace_bytes() {{ return {self.bytes}; }}"
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
            yield f"int prepare({', '.join(self.prepared)}) {{"
            yield from self._checks(self.schedule.constants, ())
            yield from self._called(once=True)
            yield ""
        yield f"int run({', '.join(self.parameters)}) {{"
        yield from self._checks(self.schedule.operands, self._apart)
        yield from self._called(once=False)

    def _checks(self, given: Sequence[Operand], apart: Sequence[tuple[Operand, Operand]]) -> Iterator[str]:
        """Lines that judge what a function was given, and name every address."""
        known = {one.name for one in given}
        values = [f"host::address({one.name})" if one.name in known else "0" for one in self.schedule.operands]
        values += [f"host::address(workspace) + {place}" for place in self.places.values()]
        yield f"    host::Addresses const at{{{', '.join(values)}}};"
        for one in given:
            if one.tensor.align > 1:
                code = self.code(f"{one.name} {_misaligned(one)}")
                behind = f"(at.{one.name} - {one.tensor.offset})" if one.tensor.offset else f"at.{one.name}"
                yield f"    if ({behind} % {one.tensor.align} != 0) return {code};"
        for result, other in apart:
            end = f"at.{result.name} + {tensor_bytes(result.tensor)}"
            meet = f"at.{other.name} < {end} && at.{result.name} < at.{other.name} + {tensor_bytes(other.tensor)}"
            yield f"    if ({meet}) return {self.code(f'{result.name} overlaps {other.name}')};"
        if self.bytes:
            code = self.code(f"workspace is null, or its address is no multiple of {WORKSPACE_ALIGNMENT}")
            wrong = f"workspace == nullptr || host::address(workspace) % {WORKSPACE_ALIGNMENT} != 0"
            yield f"    if ({wrong}) return {code};"
        else:
            yield "    static_cast<void>(workspace);"

    def _called(self, *, once: bool) -> Iterator[str]:
        """Lines that clear memory and launch what runs once, or what runs at every call."""
        for space in self.schedule.workspaces:
            if space.zeroed and space.kept == once:
                place = f"static_cast<char *>(workspace) + {self.places[space.name]}"
                yield f"    if (int error = cudaMemsetAsync({place}, 0, {space.bytes}, stream)) return error;"
        *first, last = (number for number, (turn, _) in enumerate(self.launches) if turn.once == once)
        yield from (f"    if (int error = host::launch_{number}(at, stream)) return error;" for number in first)
        yield f"    return host::launch_{last}(at, stream);"
        yield "}"


def parameter_names(text: str, entry: str, count: int) -> list[str]:
    """Return what a kernel's text calls its parameters, in CUDA C++ or PTX; numbered names where it says no such."""
    found = re.search(rf"(?:__global__|\.entry)[^;{{]*?\b{re.escape(entry)}\s*\(([^()]*)\)", text)
    words = (
        [] if found is None else [re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*?\]", "", p)) for p in found[1].split(",")]
    )
    names = [one[-1] for one in words if one]
    if len(names) != count or len(set(names)) != count:
        return [f"argument{number}" for number in range(count)]
    return [f"{name}_" if name in _TAKEN else name for name in names]


def _address(argument: AddressArgument | MapArgument, places: Mapping[str, AddressArgument]) -> str:
    place = places[argument.operand]
    offset = argument.offset + place.offset
    plus = f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
    return f"at.{place.operand}{plus}"


def _literal(argument: NumberArgument) -> str:
    if argument.type in ("fp32", "fp64"):
        return float(argument.value).hex() + "f" * (argument.type == "fp32")
    value = int(argument.value)
    return f"{value}u" if value >= 2**63 else "-9223372036854775807 - 1" if value == -(2**63) else str(value)


def _misaligned(one: Operand) -> str:
    behind = f"{one.tensor.offset} bytes behind " if one.tensor.offset else ""
    return f"does not start {behind or 'at '}a multiple of {one.tensor.align} bytes"


def _row(tm: TensorMap, code: int) -> list[str]:
    """Return a map as an aggregate of `Map`, `code` being what `run` returns if the driver does not take it."""
    require_encodable(tm, "map")
    lists = [tm.global_dim, tm.global_stride or (0,), tm.box if tm.mode == "tiled" else (0,), tm.element_stride]
    numbers = ", ".join(f"{{{', '.join(f'{n}u' if n >= 2**63 else str(n) for n in one)}}}" for one in lists)
    enums = [enumerator(tm, field) for field in ("interleave", "swizzle", "l2_promotion", "oob_fill")]
    last = f"{str(span_bytes(tm) < SMALL_SPAN).lower()}, {code}"
    if tm.mode != "tiled":
        corners = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in (tm.lower_corner, tm.upper_corner))
        last += f", {corners}, {tm.channels}, {tm.pixels}"
    return [
        f"    {{{enumerator(tm, 'dtype')}, {tm.rank}, {numbers},",
        f"     {', '.join(enums[:2])},",
        f"     {', '.join(enums[2:])}, {last}}},",
    ]


def described(schedule: Schedule) -> list[str]:
    """Return the operands of a schedule and what their memory must be, in words."""
    lines = []
    for one in schedule.operands:
        shape, strides = plain(one.tensor.shape), plain(one.tensor.strides)
        of = f"shape {shape}, strides {strides} in elements" if shape else "one number"
        place = _misaligned(one).removeprefix("does not start ")
        lines.append(f"{one.name}: {one.tensor.dtype}, {of}, {tensor_bytes(one.tensor)} bytes {place}")
    return lines
