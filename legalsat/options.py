"""The names that options take, as types: a type checker refuses a wrong one, and so does the call."""

from __future__ import annotations

from typing import Literal, TypeAlias

from legalsat.units.means import MeansName

# Who reads a tile in shared memory.
Consumer: TypeAlias = Literal["threads", "wgmma.a", "wgmma.b", "tcgen05.a", "tcgen05.b"]
# Where a movement ends: in the target's memory, or in shared memory, where somebody else's kernel reads the tiles.
Into: TypeAlias = Literal["global", "shared"]
# How tiles travel: `legalsat.units.means` says what each is.
Means: TypeAlias = MeansName
# What prints, and what runs, the plan of a movement or of a product.
Backend: TypeAlias = Literal["triton", "cute", "host", "host-python"]
RunBackend: TypeAlias = Literal["triton", "cute"]
ProductBackend: TypeAlias = Literal["cute", "ptx", "triton", "host"]
RunProductBackend: TypeAlias = Literal["cute", "ptx", "triton"]
# The driver's enums, in its order; an int is the driver's value.
Mode: TypeAlias = Literal["tiled", "im2col"]
Interleave: TypeAlias = Literal["none", "16B", "32B"]
SwizzleName: TypeAlias = Literal[
    "none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"
]
L2Promotion: TypeAlias = Literal["none", "64B", "128B", "256B"]
OobFill: TypeAlias = Literal["zero", "nan"]
# How an operand of an attention lies: batch, sequence, heads, head.
AttentionLayout: TypeAlias = Literal["bshd", "bhsd"]
# The axis of a matrix operand whose elements lie side by side: along the sum, or along its rows (its columns, of B).
Major: TypeAlias = Literal["K", "MN"]
MAJORS: tuple[Major, Major] = ("K", "MN")
# What scales of a product belong to: an operand as a whole, each row of A and of B, or each group's part of them.
Scaling: TypeAlias = Literal["tensor", "rows", "groups"]
# What reads down a column of a box.
ColumnReadName: TypeAlias = Literal["ldmatrix.x1", "ld.b32"]
