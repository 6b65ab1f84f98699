"""Attention as movements: Q, K and V to the matrix unit, the result out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from legalsat.checks import flag, integer, one_of
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.operators import Copy, Move, Operator, as_tensor
from legalsat.operators.gemm import ROW_BITS, TILE_ROWS, readers_on
from legalsat.options import AttentionLayout
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYOUTS = get_args(AttentionLayout)  # axes as they are stored: batch, heads, sequence, elements of a head
MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, init=False)
class Attention(Operator):
    """softmax(Q K^T) V for every head.

    Attributes:
        batch, heads, queries, keys, head: extents in elements; `head` is what a head holds of each token.
        dtype: element type of Q, K, V and of the result, but of 8 bits and fewer bf16.
        kv_heads: heads of K and V, which `heads` are a multiple of.
        v_head: what a head of V and of the result holds of each token; `head` when left out.
        q, k, v, out: tensors of shape (batch, heads, tokens, head), whatever the order in which axes are stored.
        layout: the order in which axes of tensors that are left out are stored: "bshd" or "bhsd".
        causal: whether later tokens are left out.

    Raises:
        InvalidInput: an extent has no meaning, or a tensor has another shape or type.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    head: int
    dtype: DType
    kv_heads: int
    v_head: int
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    causal: bool
    term = "attention"

    def __init__(  # noqa: PLR0917 - as products name their extents
        self,
        batch: int,
        heads: int,
        queries: int,
        keys: int,
        head: int,
        dtype: Any,
        *,
        kv_heads: int | None = None,
        v_head: int | None = None,
        layout: AttentionLayout = "bshd",
        q: Any = None,
        k: Any = None,
        v: Any = None,
        out: Any = None,
        causal: bool = False,
    ) -> None:
        put = object.__setattr__
        extents = {"batch": batch, "heads": heads, "queries": queries, "keys": keys, "head": head}
        for name, extent in extents.items():
            put(self, name, integer(extent, name, low=1, high=MOST))
        put(self, "dtype", as_dtype(dtype))
        put(self, "kv_heads", self.heads if kv_heads is None else integer(kv_heads, "kv_heads", low=1, high=MOST))
        put(self, "v_head", self.head if v_head is None else integer(v_head, "v_head", low=1, high=MOST))
        put(self, "causal", flag(causal, "causal"))
        one_of(layout, "layout", LAYOUTS)
        if self.heads % self.kv_heads:
            raise InvalidInput(f"{self.heads} heads of Q share {self.kv_heads} of K and V; give a divisor of them")
        result = self.dtype if self.dtype.bits > 8 else as_dtype("bf16")
        for name, given, (heads_of, tokens, width), element in (
            ("q", q, (self.heads, self.queries, self.head), self.dtype),
            ("k", k, (self.kv_heads, self.keys, self.head), self.dtype),
            ("v", v, (self.kv_heads, self.keys, self.v_head), self.dtype),
            ("out", out, (self.heads, self.queries, self.v_head), result),
        ):
            shape = (self.batch, heads_of, tokens, width)
            tensor = _stored(shape, element, layout) if given is None else as_tensor(given)
            if tensor.shape != shape or tensor.dtype != element:
                raise InvalidInput(f"{name} is {tensor}; give a tensor of {element} {shape}")
            put(self, name, tensor)

    def operands(self, target: str | Target) -> dict[str, Copy]:
        """Return Q, K, V and the result O as movements in tiles of 128 tokens, as wide as the widest swizzle."""
        first, second = readers_on(as_target(target))
        width, narrow = (min(extent, ROW_BITS // self.dtype.bits) for extent in (self.head, self.v_head))
        tile = (1, 1, TILE_ROWS, width)
        staged = Tensor(self.out.shape, self.out.dtype)
        across = min(self.v_head, ROW_BITS // self.out.dtype.bits)
        return {
            "Q": Copy(self.q, tile=tile, consumer=first),
            "K": Copy(self.k, tile=tile, consumer=second),
            # The second product sums over tokens, so that its operand is V with a token's elements one line apart.
            "V": Copy(self.v.transposed((0, 1, 3, 2)), tile=(1, 1, narrow, TILE_ROWS), consumer=second),
            "O": Copy(staged, self.out, tile=(1, 1, TILE_ROWS, across), consumer="threads"),
        }

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Q, K, V and the result O."""
        return {"Q": self.q, "K": self.k, "V": self.v, "O": self.out}

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return the operands, and the result as if it were read."""
        operands = self.operands(target)
        return {**operands, "O": Copy(self.out, tile=operands["O"].tile, consumer="threads")}

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return the result of Q, K and V; the last query of a causal one sees all keys, and who sees none has NaN."""
        import numpy as np  # noqa: PLC0415 - only what a user computes needs it

        shared = self.heads // self.kv_heads
        q, k, v = (one.astype(np.float64) for one in operands)
        k, v = (np.repeat(one, shared, axis=1) for one in (k, v))
        scores = q @ k.swapaxes(-1, -2)
        if self.causal:
            seen = np.tri(self.queries, self.keys, self.keys - self.queries, dtype=bool)
            scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        result: NDArray[Any] = weights / weights.sum(axis=-1, keepdims=True) @ v
        return result

    @property
    def flops(self) -> float:
        """Operations of both products; half of them if causal."""
        whole = 2.0 * self.batch * self.heads * self.queries * self.keys * (self.head + self.v_head)
        return whole / 2 if self.causal and self.queries > 1 else whole

    def __str__(self) -> str:
        heads = f"{self.heads} heads" if self.kv_heads == self.heads else f"{self.heads} heads on {self.kv_heads}"
        width = str(self.head) if self.v_head == self.head else f"{self.head} and {self.v_head}"
        return (
            f"attention of {self.dtype}, batch {self.batch}, {heads} of {width}, {self.queries} queries, "
            f"{self.keys} keys"
        )


def _stored(shape: tuple[int, int, int, int], element: DType, layout: str) -> Tensor:
    _, heads, tokens, head = shape
    if layout == "bhsd":
        return Tensor(shape, element)
    return Tensor(shape, element, (tokens * heads * head, head, heads * head, 1))
