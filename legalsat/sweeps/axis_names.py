"""What people call the axes of an operator's tensors: the fields of its row, and the vocabulary of a language model."""

from __future__ import annotations

import re

from legalsat.sweeps.problem import Problem

_ATTENTION = {
    "Q": ("batch", "heads", "queries", "head"),
    "K": ("batch", "kv_heads", "keys", "head"),
    "V": ("batch", "kv_heads", "keys", "v_head"),
    "O": ("batch", "heads", "queries", "v_head"),
}
_GEMM = {"A": ("batch", "m", "k"), "B": ("batch", "n", "k"), "C": ("batch", "m", "n")}
_IMAGES = ("batch", "height", "width", "channels")
# Modules whose products score every token of a vocabulary, by the names that models give them.
_HEADS = re.compile(r"(?:^|[./])(?:lm_head|embed_out|unembed|unembedding|logits|vocab|vocabulary)(?:[./]|$)", re.I)


def axis_name(problem: Problem, operand: str, axis: int) -> str:
    """Return what an axis of an operand's tensor is called: "head", "k", "vocabulary", or "axis 1:" of a plain tensor.

    Args:
        problem: whose operand it is.
        operand: as `Operator.travels` names it.
        axis: its place in the tensor's shape, from 0.
    """
    fields = dict(problem.fields)
    if fields["operator"] == "gemm":
        names = _GEMM[operand][-problem.operator.tensors[operand].rank :]
        return "vocabulary" if names[axis] == "n" and _HEADS.search(problem.name) else names[axis]
    if fields["operator"] == "attention":
        name = _ATTENTION[operand][axis]
        shared = {"kv_heads": "heads", "v_head": "head"}
        return name if fields.get(name) is not None else shared.get(name, name)
    return _IMAGES[axis] if fields["operator"] == "conv" else f"axis {axis}:"
