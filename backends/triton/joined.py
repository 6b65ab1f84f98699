"""One module of a product and of the relayouts in front: its `run` takes operands as they are and lays them out first.

Each kernel's module says the same names of numbers of its own, so those of a relayout are told by its operand's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from legalsat.runtime.program import Program, Relayout

_MULTIPLY = "multiply"  # what the product's own `run` is called then


def joined(made: Program) -> str:
    """Return the text of a module whose `run` does a whole program: its own text where nothing lies in front."""
    if not made.before:
        return made.text
    text = re.sub(r"^def run\(", f"def {_MULTIPLY}(", made.text, flags=re.MULTILINE)
    parts = [_renamed(one, text) for one in made.before]
    have = set(text.splitlines())
    lines = dict.fromkeys(line for imports, _ in parts for line in imports if line not in have)
    end = ast.parse(text).body
    first = next(node for node in end if isinstance(node, ast.ImportFrom) and node.module != "__future__")
    rows = text.splitlines()
    rows[first.lineno - 1 : first.lineno - 1] = lines
    bodies = [f"{body}\n\n\n{_laid_out(one).rstrip()}" for one, (_, body) in zip(made.before, parts, strict=True)]
    return "\n".join(rows).rstrip("\n") + "\n\n\n" + "\n\n\n".join((*bodies, _run(made)))


def _renamed(one: Relayout, beside: str) -> tuple[list[str], str]:
    """Return the imports of a relayout's module, and the rest under names of its own.

    What it has in common with the text that it stands beside, word for word, is left to that.
    """
    text = one.program.text
    nodes, lines = ast.parse(text).body, text.splitlines()
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    kept, functions, values = list[str](), set[str](), set[str]()
    before = max(node.end_lineno or node.lineno for node in imports)
    for node in nodes[1:]:
        if node in imports:
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        said = "\n".join(lines[first - 1 : node.end_lineno])
        comments = _comments(lines[before : first - 1])
        before = node.end_lineno or node.lineno
        if f"\n{said}\n" in beside and not isinstance(node, ast.FunctionDef):
            continue
        (functions if isinstance(node, ast.FunctionDef) else values).update(_defined(node))
        apart = [""] * 2 * isinstance(node, ast.FunctionDef)
        kept.append("\n".join((*apart, *comments, said)))
    # Functions are called or launched; words of docstrings, texts and keywords are no names.
    called = rf"(?:{'|'.join(sorted(functions))})(?=[\[(])"
    named = re.compile(rf"(?<![\w.\"])({called}|(?:{'|'.join(sorted(values))})\b(?!=))")
    body = named.sub(lambda found: own_name(one.operand, found[1]), "\n".join(kept)).strip("\n")
    return ["\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in imports if _module(n) != "__future__"], body


def own_name(operand: str, name: str) -> str:
    """Return what a name of a relayout's module is called beside others."""
    return f"{operand.upper()}_{name}" if name.isupper() else f"{operand}_{name.lstrip('_')}"


def _module(node: ast.Import | ast.ImportFrom) -> str:
    return (node.module or "") if isinstance(node, ast.ImportFrom) else ""


def _comments(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.startswith("#")]


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [found.id for target in targets for found in ast.walk(target) if isinstance(found, ast.Name)]


def _laid_out(one: Relayout) -> str:
    """Return the function that lays an operand out if it is the one that the plan was made for."""
    name = one.operand
    shape, stride = (own_name(name, f"SOURCE_{what}") for what in ("SHAPE", "STRIDE"))
    return f'''\
def laid_out_{name}({name}):
    """Return {name.upper()} as the kernel reads it: a copy if it lies as it did for the plan, else as it is."""
    lies = zip({shape}, {name}.stride(), {stride})
    if tuple({name}.shape) == {shape} and all(n == 1 or d == e for n, d, e in lies):
        return {own_name(name, "run")}({name})
    return {name}
'''


def _run(made: Program) -> str:
    *inputs, _ = (one.name for one in made.operands)
    relaid = {one.operand: one for one in made.before}
    passed = [f"laid_out_{name}({name})" if name in relaid else name for name in inputs]
    once = " and ".join(f"`laid_out_{name}`" for name, one in relaid.items() if one.constant)
    constant = (
        f"\n    What never changes need be copied but once: call {once}, and pass what it returns.\n" if once else ""
    )
    told = " and ".join(name.upper() for name in relaid)
    verb = "is copied" if len(relaid) == 1 else "are copied"
    return f'''\
def run({", ".join(inputs)}, c=None):
    """Return C = A B^T on the current stream, as `{_MULTIPLY}` does; {told} {verb} to rows of whole 16 bytes first.

    An operand that lies otherwise than the plan was told goes to the kernel as it is.
{constant}    """
    return {_MULTIPLY}({", ".join(passed)}, c)
'''
