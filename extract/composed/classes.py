"""What the laws make of a program: classes of equal matrices, and what makes each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from legalsat.dtypes import DType, dtype
from legalsat.extract.search.planner import ONE_AT_A_TIME
from legalsat.operators import program as composed
from legalsat.operators.program import Program
from legalsat.rules.rewrites import VALUE_LAWS
from legalsat.tensor import plain
from legalsat.terms import values
from legalsat.terms.tree_graph import Classes as Held
from legalsat.terms.tree_graph import TermGraph
from legalsat.terms.trees import Term, TermLaw

MOST_NODES = 4000
VIEWS = ("transpose", "slice")


@dataclass(frozen=True, slots=True)
class Node:
    """One way to make a class: an operator, the classes of its operands, its numbers as its term has them."""

    operator: str
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    name: str = ""  # of an input, or the type of a product


@dataclass(frozen=True, slots=True)
class Matrices:
    """Classes by number: nodes, shape, type, and whether they are made of constants.

    `values` are the classes of the program's values, inputs first.
    """

    nodes: tuple[tuple[Node, ...], ...]
    shapes: tuple[tuple[int, int], ...]
    types: tuple[DType, ...]
    constant: tuple[bool, ...]
    values: tuple[int, ...]


def terms_of(program: Program) -> list[Term]:
    """Return the terms of a program's values, inputs first; of each product that it is asked for."""
    terms = [values.source(one.name) for one in program.inputs]
    shapes = [plain(one.tensor.shape) for one in program.inputs]
    for number, one in enumerate(program.steps):
        operands = [terms[operand] for operand in one.operands]
        shape = shapes[one.operands[0]]
        if one.operator == composed.PRODUCT:
            made = values.asked(number, number, values.product(one.dtype.name, *one.shape, *operands))
        elif one.operator == composed.TRANSPOSE:
            made = values.transpose(*operands)
        elif one.operator == composed.SLICE:
            axis, first, count = one.numbers
            made = values.slice_(axis, first, count, shape[axis], *operands)
        elif one.operator == composed.PAD:
            axis, before, _ = one.numbers
            made = values.pad(axis, before, shape[axis], one.shape[axis], *operands)
        else:
            (axis,) = one.numbers
            made = values.concat(axis, *(shapes[operand][axis] for operand in one.operands), *operands)
        terms.append(made)
        shapes.append(one.shape)
    return terms


def whole_term(program: Program) -> Term:
    """Return the term of all results."""
    terms = terms_of(program)
    whole = values.nothing()
    for result in reversed(program.results):
        whole = values.results(terms[result.value], whole)
    return whole


@lru_cache(maxsize=64)
def matrices_of(program: Program, laws: tuple[TermLaw, ...] = VALUE_LAWS) -> Matrices:
    """Return the classes that laws make of a program's values."""
    with ONE_AT_A_TIME, TermGraph(values.CONSTRUCTORS, laws) as graph:
        held, first = graph.classes_of(whole_term(program), MOST_NODES)
    return _numbered(program, held, first)


def _numbered(program: Program, held: Held, first: str) -> Matrices:
    """Return the classes that results are made of, by number, in the order in which they are met."""
    roots = list(_results(held, first))
    numbers: dict[str, int] = {}
    waiting = list(reversed(roots))
    nodes: dict[int, list[Node]] = {}
    while waiting:
        eclass = waiting.pop()
        if eclass in numbers:
            continue
        numbers[eclass] = len(numbers)
        waiting += [child for function, children in sorted(held[eclass]) for child in children if _is_term(held, child)]
    for eclass, number in numbers.items():
        found = {_node(held, numbers, function, children) for function, children in held[eclass] if function != "asked"}
        nodes[number] = sorted(found, key=lambda node: (node.operator, node.numbers, node.operands, node.name))
    values_of = _classes_of(program, nodes)
    nodes = {number: [node for node in some if not _idle(number, node, nodes)] for number, some in nodes.items()}
    shapes, types, constant = _analysed(program, nodes)
    count = range(len(nodes))
    return Matrices(
        tuple(tuple(nodes[i]) for i in count),
        tuple(shapes[i] for i in count),
        tuple(types[i] for i in count),
        tuple(i in constant for i in count),
        values_of,
    )


def _classes_of(program: Program, nodes: dict[int, list[Node]]) -> tuple[int, ...]:
    """Return the class of each of a program's values: that in which the node stands that makes it."""
    places = {node: number for number, some in nodes.items() for node in some}
    found: list[int] = []
    for term in terms_of(program):
        made = term.parts[-1] if term.name == "asked" else term
        assert isinstance(made, Term)
        numbers = tuple(part for part in made.parts if isinstance(part, int))
        name = "".join(part for part in made.parts if isinstance(part, str))
        operands = program.steps[len(found) - len(program.inputs)].operands if made.name != "source" else ()
        found.append(places[Node(made.name, tuple(found[one] for one in operands), numbers, name)])
    return tuple(found)


def _idle(number: int, node: Node, nodes: dict[int, list[Node]]) -> bool:
    """Whether a node turns what is only there once its own class is: such a view shows nothing that is not seen."""
    if node.operator != "transpose":
        return False
    there: set[int] = set()
    before = -1
    while before != len(there):
        before = len(there)
        there |= {
            other
            for other, some in nodes.items()
            if other != number and any(there.issuperset(one.operands) for one in some)
        }
    return node.operands[0] not in there


def _is_term(held: Held, child: str) -> bool:
    function, children = held[child][0]
    return bool(children) or function == "nothing"


def _results(held: Held, eclass: str) -> Iterator[str]:
    while (made := held[eclass][0])[0] == "results":
        value, eclass = made[1]
        yield value


def _node(held: Held, numbers: dict[str, int], function: str, children: Sequence[str]) -> Node:
    below = [numbers[child] for child in children if _is_term(held, child)]
    leaves = [held[child][0][0] for child in children if not _is_term(held, child)]
    name = "".join(leaf.strip('"') for leaf in leaves if leaf.startswith('"'))
    return Node(function, tuple(below), tuple(int(leaf) for leaf in leaves if not leaf.startswith('"')), name)


def _analysed(
    program: Program, nodes: dict[int, list[Node]]
) -> tuple[dict[int, tuple[int, int]], dict[int, DType], set[int]]:
    """Return what every member of a class has in common: its shape, its type, and which classes are constant."""
    inputs = {one.name: one for one in program.inputs}
    shapes: dict[int, tuple[int, int]] = {}
    types: dict[int, DType] = {}
    constant: set[int] = set()
    before = (-1, -1)
    while before != (len(shapes), len(constant)):
        before = len(shapes), len(constant)
        for number, some in nodes.items():
            for node in some:
                if not all(operand in shapes for operand in node.operands):
                    continue
                if node.operator == "source":
                    one = inputs[node.name]
                    rows, columns = plain(one.tensor.shape)
                    shapes[number], types[number] = (rows, columns), one.tensor.dtype
                else:
                    shapes[number] = _shape(node, [shapes[operand] for operand in node.operands])
                    types[number] = dtype(node.name) if node.name else types[node.operands[0]]
                if inputs[node.name].constant if node.operator == "source" else constant.issuperset(node.operands):
                    constant.add(number)
    return shapes, types, constant


def _shape(node: Node, operands: list[tuple[int, int]]) -> tuple[int, int]:
    if node.operator == "product":
        return node.numbers[0], node.numbers[1]
    rows, columns = operands[0]
    if node.operator == "transpose":
        return columns, rows
    axis, *numbers = node.numbers
    extent = {"slice": 1, "pad": 2}.get(node.operator)
    along = numbers[0] + numbers[1] if extent is None else numbers[extent]
    return (along, columns) if axis == 0 else (rows, along)
