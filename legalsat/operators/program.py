"""`Program`: products of matrices and views of them, of which one feeds the other, planned as one.

A `Value` says what a matrix holds and not where it lies: only inputs and results have a layout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legalsat.checks import flag, instance, integer, one_of, sequence
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.operators import Operator, as_tensor
from legalsat.operators.gemm import result_of
from legalsat.operators.operator import PROGRAM
from legalsat.printable import shown
from legalsat.tensor import Tensor, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from legalsat.terms.trees import TermLaw

INPUT, PRODUCT, TRANSPOSE, SLICE, PAD, CONCAT = "input", "product", "transpose", "slice", "pad", "concat"
MOST_STEPS = 64
_SIMPLE = re.compile(r"\w+(\.T)?")
MOST_EXTENT = 2**31 - 1


@dataclass(frozen=True, init=False, eq=False)
class Value:
    """A matrix of a program: an input, or what operators make of others; `x @ w.T`, `x.T`, `x[:, 1:]`.

    Attributes:
        operator: "input", "product" (A B^T), "transpose", "slice", "pad" (with zeros) or "concat".
        operands: what it is made of.
        numbers: of a slice the axis, the first element and their count; of a padding the axis and the zeros before and
            after; of a concatenation the axis.
        shape: rows and columns. dtype: of elements; products are rounded to it.
        name, tensor: of an input: what it is called, and how it lies.
        constant: of an input: whether it never changes, as weights do not, so that what is made of constants alone is
            made once.

    Raises:
        InvalidInput: a tensor that is no matrix, or has dims; operands that do not fit.
    """

    operator: str
    operands: tuple[Value, ...]
    numbers: tuple[int, ...]
    shape: tuple[int, int]
    dtype: DType
    name: str
    tensor: Tensor | None
    constant: bool

    def __init__(self, name: str, tensor: Any, *, constant: bool = False) -> None:
        tensor = as_tensor(tensor)
        if tensor.dims or tensor.rank != 2:
            raise InvalidInput(f"input {shown(name)} is {tensor}; give a matrix without dims")
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidInput(f"name is {shown(name)}; give an identifier such as 'x'")
        self._put(INPUT, (), (), plain(tensor.shape), tensor.dtype, name, tensor, flag(constant, "constant"))

    def _put(self, *fields: Any) -> None:
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, name, value)

    def _made(self, operator: str, operands: tuple[Value, ...], numbers: tuple[int, ...], shape: Any) -> Value:
        if not all(0 < extent <= MOST_EXTENT for extent in shape):
            raise InvalidInput(f"{operator} has {shape[0]} x {shape[1]} elements; give 1 to 2^31 - 1 along each axis")
        made = object.__new__(Value)
        made._put(operator, operands, numbers, tuple(shape), self.dtype, "", None, False)
        return made

    @property
    def T(self) -> Value:  # noqa: N802 - numpy's name
        """The transpose."""
        if self.operator == TRANSPOSE:
            return self.operands[0]
        return self._made(TRANSPOSE, (self,), (), self.shape[::-1])

    def product(self, other: Any, dtype: Any = None) -> Value:
        """Return A B^T, as `Gemm` has it.

        Args:
            other: B, with as many columns.
            dtype: element type of the result; as of `Gemm` when left out.
        """
        other = instance(other, "other", Value)
        if other.shape[1] != self.shape[1] or other.dtype != self.dtype:
            raise InvalidInput(f"product of {self} and {other}; give matrices of as many columns, of one type")
        made = self._made(PRODUCT, (self, other), (), (self.shape[0], other.shape[0]))
        object.__setattr__(made, "dtype", result_of(self.dtype) if dtype is None else as_dtype(dtype))
        return made

    def __matmul__(self, other: Any) -> Value:
        """Return A B, as numpy has it."""
        return self.product(instance(other, "other", Value).T)

    def __getitem__(self, key: Any) -> Value:
        """Return some rows and columns, by slices of step 1."""
        slices = key if isinstance(key, tuple) else (key,)
        if len(slices) > 2 or not all(isinstance(one, slice) and one.step in {None, 1} for one in slices):
            raise InvalidInput(f"index is {shown(key)}; give one or two slices without steps")
        found = self
        for axis, one in enumerate(slices):
            bounds = [None if end is None else integer(end, "index", low=None) for end in (one.start, one.stop)]
            first, end, _ = slice(*bounds).indices(found.shape[axis])
            shape = (end - first, found.shape[1]) if axis == 0 else (found.shape[0], end - first)
            if shape != found.shape:
                found = found._made(SLICE, (found,), (axis, first, end - first), shape)
        return found

    def pad(self, padding: Any) -> Value:
        """Return the matrix with zeros around it: ((above, below), (left, right)), in elements."""
        pairs = [sequence(one, "padding", "two integers") for one in sequence(padding, "padding", "two pairs")]
        if len(pairs) != 2 or any(len(pair) != 2 for pair in pairs):
            raise InvalidInput(f"padding is {shown(padding)}; give ((above, below), (left, right))")
        found = self
        for axis, pair in enumerate(pairs):
            before, after = (integer(n, "padding", low=0, high=MOST_EXTENT) for n in pair)
            shape = [n + (before + after) * (i == axis) for i, n in enumerate(found.shape)]
            if before or after:
                found = found._made(PAD, (found,), (axis, before, after), shape)
        return found

    def concat(self, other: Any, axis: int = 0) -> Value:
        """Return this matrix with another one after it along an axis."""
        axis, other = integer(axis, "axis", low=0, high=1), instance(other, "other", Value)
        if other.shape[1 - axis] != self.shape[1 - axis] or other.dtype != self.dtype:
            raise InvalidInput(f"concat of {self} and {other} along axis {axis}; give matrices that fit, of one type")
        shape = [n + other.shape[axis] * (i == axis) for i, n in enumerate(self.shape)]
        return self._made(CONCAT, (self, other), (axis,), shape)

    def __str__(self) -> str:
        return f"{self.name or self.operator} of {self.dtype} {self.shape[0]} x {self.shape[1]}"


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its name, how it lies, and whether it never changes."""

    name: str
    tensor: Tensor
    constant: bool


@dataclass(frozen=True, slots=True)
class Made:
    """A value that an operator makes: fields as of `Value`; operands by number, the inputs first."""

    operator: str
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    shape: tuple[int, int]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Result:
    """A result: its name, the number of its value, and how it lies."""

    name: str
    value: int
    tensor: Tensor


@dataclass(frozen=True, slots=True, init=False)
class Program(Operator):
    """Operators on matrices, as results that are wanted: `Program(y=(x @ w.T) @ d.T)`.

    Inputs and results lie as their tensors say; everything between lies as the plan likes, or nowhere.

    Attributes:
        inputs: what is read, in the order in which results come upon it.
        steps: what is made of that, each value once, operands first.
        results: what is wanted. A keyword's value is a `Value`, which lies dense and row-major, or that and a tensor.

    Raises:
        InvalidInput: no result, two inputs of one name, more than 64 steps, or a tensor of another shape or type.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Made, ...]
    results: tuple[Result, ...]
    term = PROGRAM

    def __init__(self, **results: Value | tuple[Value, Any]) -> None:
        if not results:
            raise InvalidInput("a program has no result; give one, as in Program(y=x @ w.T)")
        pairs = {name: _with_tensor(name, given) for name, given in results.items()}
        inputs, steps, numbers = _flattened([value for value, _ in pairs.values()])
        put = object.__setattr__
        put(self, "inputs", inputs)
        put(self, "steps", steps)
        if clash := {one.name for one in inputs} & set(results):
            raise InvalidInput(f"{min(clash)} names an input and a result; give the result another name")
        made = (Result(name, numbers[id(value)], tensor) for name, (value, tensor) in pairs.items())
        put(self, "results", tuple(made))

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Inputs and results."""
        return {one.name: one.tensor for one in self.inputs} | {one.name: one.tensor for one in self.results}

    @property
    def flops(self) -> float:
        """Operations of all products, as they are written."""
        shapes = [*(one.tensor.shape for one in self.inputs), *(one.shape for one in self.steps)]
        products = (one for one in self.steps if one.operator == PRODUCT)
        return sum(2.0 * one.shape[0] * one.shape[1] * plain(shapes[one.operands[0]])[1] for one in products)

    def constant(self, value: int) -> bool:
        """Whether a value, by its number, is made of constants alone."""
        found = [one.constant for one in self.inputs]
        for step in self.steps:
            found.append(all(found[operand] for operand in step.operands))
        return found[self._number(value)]

    def _number(self, value: int) -> int:
        return integer(value, "value", low=0, high=len(self.inputs) + len(self.steps) - 1)

    def meaning(self, *operands: NDArray[Any]) -> Any:
        """Return what the results hold, given numpy arrays of what the inputs hold: one array, or one for each.

        What is made is rounded to its type, as its tensor in memory would be.

        Raises:
            InvalidInput: the operands are others in number, in shape, or no numbers.
        """
        from legalsat.extract.composed.run import meant  # noqa: PLC0415 - only what a user computes needs it

        shapes = [one.tensor.shape for one in self.inputs]
        kinds = {getattr(getattr(one, "dtype", None), "kind", "") for one in operands}
        if [getattr(one, "shape", None) for one in operands] != shapes or not kinds <= set("biuf"):
            raise InvalidInput(
                f"operands of {self} are others; give numpy arrays of shapes {', '.join(map(str, shapes))}"
            )
        found = meant(self, operands)
        return found[0] if len(found) == 1 else found

    def laws(self) -> tuple[TermLaw, ...]:
        """Return the laws of values."""
        from legalsat.rules.rewrites import VALUE_LAWS  # noqa: PLC0415 - rules know nouns

        return VALUE_LAWS

    def called(self, value: int) -> str:
        """Return what a value is called: as an input or a result, or v1 for the first step's, and so on."""
        number = self._number(value)
        if number < len(self.inputs):
            return self.inputs[number].name
        names = [one.name for one in self.results if one.value == number]
        return names[0] if names else f"v{number - len(self.inputs) + 1}"

    def words(self, value: int) -> str:
        """Return a value as an expression, such as "(x @ w.T)[:, 0:64]", in which what is used again has a name."""
        number = self._number(value)
        if number < len(self.inputs):
            return self.inputs[number].name
        one, named = self.steps[number - len(self.inputs)], self._named()
        operands = [self.called(operand) if operand in named else self.words(operand) for operand in one.operands]
        return expression(one.operator, operands, one.numbers)

    def _named(self) -> list[int]:
        """Return the steps' values that are results, or operands more than once."""
        used = [operand for one in self.steps for operand in one.operands]
        used += [one.value for one in self.results]
        results = {one.value for one in self.results}
        numbers = range(len(self.inputs), len(self.inputs) + len(self.steps))
        return [number for number in numbers if number in results or used.count(number) > 1]

    def __str__(self) -> str:
        return f"program of {', '.join(f'{self.called(number)} = {self.words(number)}' for number in self._named())}"


def expression(operator: str, operands: Sequence[str], numbers: Sequence[int]) -> str:
    """Return what an operator makes of operands in words."""
    first, *others = (one if _SIMPLE.fullmatch(one) else f"({one})" for one in operands)
    if operator == PRODUCT:
        return f"{first} @ {others[0].removesuffix('.T') if others[0].endswith('.T') else f'{others[0]}.T'}"
    if operator == TRANSPOSE:
        return f"{first}.T"
    if operator == SLICE:
        axis, begin, count = numbers
        return f"{first}[{':, ' * axis}{begin}:{begin + count}]"
    if operator == PAD:
        axis, before, after = numbers
        pairs = [(0, 0), (0, 0)]
        pairs[axis] = before, after
        return f"{first}.pad({tuple(pairs)})"
    return f"{first}.concat({operands[1]}, {numbers[0]})" if operator == CONCAT else f"{operator} of {operands[0]}"


def _with_tensor(name: str, given: Any) -> tuple[Value, Tensor]:
    value, tensor = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    value = instance(value, name, Value)
    if value.operator == INPUT:
        raise InvalidInput(f"{name} is the input {value.name} itself; give something that is made of it")
    found = Tensor(value.shape, value.dtype) if tensor is None else as_tensor(tensor)
    if found.shape != value.shape or found.dtype != value.dtype:
        raise InvalidInput(f"{name} is {found}; give a tensor of {value.dtype} {value.shape}")
    return value, found


def _flattened(results: Sequence[Value]) -> tuple[tuple[Input, ...], tuple[Made, ...], dict[int, int]]:
    """Return inputs and steps, equal ones once, and the number of each value by its identity."""
    inputs: dict[str, Input] = {}
    order: list[Value] = []
    seen: set[int] = set()
    waiting = [(value, False) for value in reversed(results)]
    while waiting:
        value, ready = waiting.pop()
        if ready:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            waiting += [(value, True), *((operand, False) for operand in reversed(value.operands))]
    for value in order:
        if value.tensor is not None:
            one = Input(value.name, value.tensor, value.constant)
            if inputs.setdefault(value.name, one) != one:
                raise InvalidInput(f"two inputs are called {value.name}; give each a name of its own")
    names = list(inputs)
    made: dict[Made, int] = {}
    numbers: dict[int, int] = {}
    for value in order:
        if value.tensor is not None:
            numbers[id(value)] = names.index(value.name)
            continue
        operands = tuple(numbers[id(operand)] for operand in value.operands)
        step = Made(value.operator, operands, value.numbers, value.shape, value.dtype)
        numbers[id(value)] = made.setdefault(step, len(inputs) + len(made))
    if len(made) > MOST_STEPS:
        raise InvalidInput(f"a program has {len(made)} steps; give at most {MOST_STEPS}")
    return tuple(inputs.values()), tuple(made), numbers


def program_of(inputs: Sequence[Input], steps: Sequence[Made], results: Sequence[Result]) -> Program:
    """Return the program of these parts, checked as one that a user writes."""
    values = [Value(one.name, one.tensor, constant=one.constant) for one in inputs]
    for one in steps:
        operator = one_of(one.operator, "operator", (PRODUCT, TRANSPOSE, SLICE, PAD, CONCAT))
        first, *others = (values[operand] for operand in one.operands)
        if operator == PRODUCT:
            values.append(first.product(others[0], one.dtype))
        elif operator == TRANSPOSE:
            values.append(first.T)
        elif operator == CONCAT:
            values.append(first.concat(others[0], one.numbers[0]))
        else:
            axis, begin, number = one.numbers
            pair = (slice(begin, begin + number),) if operator == SLICE else ((begin, number),)
            whole = (slice(None),) if operator == SLICE else ((0, 0),)
            key = (*whole, *pair) if axis else (*pair, *whole)
            values.append(first[key] if operator == SLICE else first.pad(key))
    found = Program(**{one.name: (values[one.value], one.tensor) for one in results})
    if (found.inputs, found.steps, found.results) != (tuple(inputs), tuple(steps), tuple(results)):
        raise InvalidInput(f"steps are others than those of {found}; give those that a program has")
    return found
