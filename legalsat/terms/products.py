"""What terms of products are made of. C = A B^T, where A has m rows and B has n, of k elements each.

Matrices are values that lie somewhere; a kernel is what is left when nothing has to be replaced any more:

- `operand(name, major, whole)`: the user's matrix, "K" or "MN" the axis along which its elements lie side by side;
  `whole` is 1 where a tensor map describes it, so that all lines begin at whole granules of 16 bytes, and `CUT` more
  where groups cut it along k, so that a tile may have elements of two; `LOOSE` where members of a batch, or of groups,
  begin as many bytes behind whole granules as no other may; `SCATTERED` where no elements lie side by side, and those
  along `major` are nearest to each other.
- `at(major, x)`: the values of x, lying along `major` in whole granules. Something has to bring them there.
- `wrap(x)`: x, by boxes of a map with two axes more that lead to a group's end and 2^64 bytes further, which is back:
  what of a box lies behind the end is zero.
- `uncut(x)`: the values of x along k in whole k-tiles, with those of other groups beside them.
- `pad(x)`, `transpose(x)`: a copy of x in whole granules, along the same axis or the other one, made in front.
- `granules(x)`: x, of members that begin anywhere, by maps of lines that begin alike, one axis of which has granules:
  a member's phase says which map has a line, and where it begins in which granule.
- `align(x)`: x, by the granules in which its lines lie, whatever else they hold; warps move each line in shared
  memory to where a whole one would lie.
- `product(axes, a, b)`: C, by a matrix unit that reads tiles along so many `axes`, K first. `flip(c)`: C^T.
- `multiply(a, b)`: C, of tiles that boxes bring. `shift(a, b)`: C, of rows of A that are brought from the granule in
  which they begin, whatever is there, and of B brought as many elements before its first, where it is zero.
  `clip(a, b)`: C, of the k-tiles that hold some of a group along k, of which what is others' is cleared in shared
  memory.
  `realign(a, b)`: C, of rows of A that are shifted in registers to where they begin. `weave(a, b)`: C, of lines of A
  that lie across k, of which elements of neighbouring ones are joined in registers. `slide(a, b)`: C, of lines of B
  that lie across k and are brought from the granule in which they begin, those that begin alike one phase of k after
  the other; between phases the sums of all columns so far slide to where the next one's are.
- `store(down, across, c)`: C in memory. `across` says how its rows lie there, and `down` its columns: 0 apart, 1 side
  by side, 2 side by side in whole granules.
- `boxes(c)`, `rows(c)`: C stored row by row by the copy engine, or by threads. `windows(c)`: by boxes of a map with
  one axis more, along which windows of rows slide; what of a box lies behind its window is not stored. `lapped(c)`: by
  threads, of tiles that lap over the next one by a sector of L2, so that whole sectors of each row are stored.
- `turned(c)`: C stored column by column by the copy engine: tiles are turned on their way to shared memory.
  `panes(c)`: the same by boxes of a map with one axis more, along which windows of columns slide.
- `columns(c)`: the same by threads, wherever columns begin. `elements(c)`: by threads, each element by itself.
- `accumulators(down, across, c)`: by way of all accumulators of a tile in shared memory.
- `joined(down, across, ways, c)`: the same of the sum of products of slices of k, as many as the open number `ways`.
- `sliced(down, across, ways, c)`: that sum by a kernel behind, which reads products that boxes store in memory of their
  own.
"""

from __future__ import annotations

from legalsat.terms.trees import Constructor, Part, Term

CUT = 2
LOOSE = 4
SCATTERED = 8
WAYS = "ways"  # the open number of slices of k

operand = Constructor("operand", ("String", "String", "i64"))
at = Constructor("at", ("String", "Term"), kernel=False)
wrap = Constructor("wrap", ("Term",))
uncut = Constructor("uncut", ("Term",), kernel=False)
pad = Constructor("pad", ("Term",))
transpose = Constructor("transpose", ("Term",))
granules = Constructor("granules", ("Term",))
align = Constructor("align", ("Term",))
product = Constructor("product", ("i64", "Term", "Term"), kernel=False)
flip = Constructor("flip", ("Term",), kernel=False)
multiply = Constructor("multiply", ("Term", "Term"))
clip = Constructor("clip", ("Term", "Term"))
shift = Constructor("shift", ("Term", "Term"))
realign = Constructor("realign", ("Term", "Term"))
weave = Constructor("weave", ("Term", "Term"))
slide = Constructor("slide", ("Term", "Term"))
store = Constructor("store", ("i64", "i64", "Term"), kernel=False)
boxes = Constructor("boxes", ("Term",))
windows = Constructor("windows", ("Term",))
rows = Constructor("rows", ("Term",))
lapped = Constructor("lapped", ("Term",))
turned = Constructor("turned", ("Term",))
panes = Constructor("panes", ("Term",))
columns = Constructor("columns", ("Term",))
elements = Constructor("elements", ("Term",))
accumulators = Constructor("accumulators", ("i64", "i64", "Term"))
sliced = Constructor("sliced", ("i64", "i64", "String", "Term"))
joined = Constructor("joined", ("i64", "i64", "String", "Term"))

CONSTRUCTORS = tuple(value for value in list(vars().values()) if isinstance(value, Constructor))


def words(term: Part) -> str:
    """Return a term for a person: operands by their names, without the numbers that say how they and C lie."""
    if not isinstance(term, Term):
        return str(term)
    if term.name == operand.name:
        return str(term.parts[0])
    return f"{term.name}({', '.join(words(part) for part in term.parts if not isinstance(part, int))})"
