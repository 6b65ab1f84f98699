"""What terms of programs are made of: matrices as values, whatever place they lie in. Extents count elements.

- `source(name)`: an input.
- `product(type, m, n, a, b)`: A B^T of m rows of A and n of B, rounded to a type.
- `transpose(x)`. `slice(axis, first, count, extent, x)`: some of x, whose extent along the axis is given.
- `pad(axis, before, extent, whole, x)`: x, of that extent along the axis, within zeros of the whole extent.
- `concat(axis, n, m, x, y)`: x, of extent n along the axis, and then y of extent m.
- `asked(first, last, x)`: x, which is one of the program's own products, or some of them one after another, of those
  numbers in the order in which they are written.
- `results(x, rest)`, `nothing()`: what is wanted.
"""

from __future__ import annotations

from legalsat.terms.trees import Constructor

source = Constructor("source", ("String",))
product = Constructor("product", ("String", "i64", "i64", "Term", "Term"))
transpose = Constructor("transpose", ("Term",))
slice_ = Constructor("slice", ("i64", "i64", "i64", "i64", "Term"))
pad = Constructor("pad", ("i64", "i64", "i64", "i64", "Term"))
concat = Constructor("concat", ("i64", "i64", "i64", "Term", "Term"))
asked = Constructor("asked", ("i64", "i64", "Term"), kernel=False)
results = Constructor("results", ("Term", "Term"))
nothing = Constructor("nothing", ())

CONSTRUCTORS = tuple(value for value in list(vars().values()) if isinstance(value, Constructor))
