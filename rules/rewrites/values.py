"""Laws of values: what else products, slices, paddings and concatenations of matrices equal, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from legalsat.terms.trees import TermEquation, Variable, term_law
from legalsat.terms.values import asked, concat, pad, product, slice_, transpose

Equations: TypeAlias = Iterator[TermEquation]
ROWS, COLUMNS = 0, 1
BOTH = ((ROWS, COLUMNS), (COLUMNS, ROWS))


@term_law
def transpose_twice(x: Variable) -> Equations:
    """(X^T)^T  =  X"""
    yield TermEquation(transpose(transpose(x)), x)


@term_law
def transpose_of_product(t: Variable, m: Variable, n: Variable, a: Variable, b: Variable) -> Equations:
    """(A B^T)^T  =  B A^T"""
    yield TermEquation(transpose(product(t, m, n, a, b)), product(t, n, m, b, a))


@term_law
def transpose_of_part(n: Variable, m: Variable, k: Variable, x: Variable, y: Variable) -> Equations:
    """(X[:, s])^T  =  X^T[s], and so of paddings and concatenations, along either axis"""
    for axis, other in BOTH:
        yield TermEquation(transpose(slice_(axis, n, m, k, x)), slice_(other, n, m, k, transpose(x)))
        yield TermEquation(transpose(pad(axis, n, m, k, x)), pad(other, n, m, k, transpose(x)))
        yield TermEquation(transpose(concat(axis, n, m, x, y)), concat(other, n, m, transpose(x), transpose(y)))


@term_law
def slice_of_slice(
    axis: Variable, f: Variable, c: Variable, g: Variable, n: Variable, s: Variable, x: Variable
) -> Equations:
    """X[g:g+n][f:f+c]  =  X[g+f:g+f+c]"""
    yield TermEquation(slice_(axis, f, c, n, slice_(axis, g, n, s, x)), slice_(axis, f + g, c, s, x))


@term_law
def slice_of_concat(
    axis: Variable, f: Variable, c: Variable, s: Variable, n: Variable, m: Variable, x: Variable, y: Variable
) -> Equations:
    """[X Y][f:f+c]  =  X[f:f+c], or Y[f-n:f-n+c], where the slice is of one of them alone; or that one itself"""
    whole = concat(axis, n, m, x, y)
    yield TermEquation(slice_(axis, 0, n, s, whole), x)
    yield TermEquation(slice_(axis, n, m, s, whole), y)
    within = slice_(axis, f, c, s, whole)
    yield TermEquation(within, slice_(axis, f, c, n, x), (f + c < n + 1, c < n))
    yield TermEquation(within, slice_(axis, f - n, c, m, y), (n < f + 1, c < m))


@term_law
def slice_of_pad(
    axis: Variable, f: Variable, c: Variable, s: Variable, u: Variable, n: Variable, x: Variable
) -> Equations:
    """[0 X 0][f:f+c]  =  X[f-u:f-u+c] where the slice has none of the zeros, or X itself"""
    yield TermEquation(slice_(axis, u, n, s, pad(axis, u, n, s, x)), x)
    within = slice_(axis, f, c, s, pad(axis, u, n, s, x))
    yield TermEquation(within, slice_(axis, f - u, c, n, x), (u < f + 1, f + c < u + n + 1, c < n))


@term_law
def slice_of_product(
    t: Variable, f: Variable, c: Variable, m: Variable, n: Variable, a: Variable, b: Variable
) -> Equations:
    """(A B^T)[s]  =  A[s] B^T, and (A B^T)[:, s]  =  A B[s]^T"""
    whole = product(t, m, n, a, b)
    yield TermEquation(slice_(ROWS, f, c, m, whole), product(t, c, n, slice_(ROWS, f, c, m, a), b))
    yield TermEquation(slice_(COLUMNS, f, c, n, whole), product(t, m, c, a, slice_(ROWS, f, c, n, b)))


@term_law
def product_of_concat(
    t: Variable, n: Variable, m: Variable, p: Variable, q: Variable, x: Variable, y: Variable, b: Variable
) -> Equations:
    """[X; Y] B^T  =  [X B^T; Y B^T], and B [X; Y]^T  =  [B X^T, B Y^T]; both ways"""
    first = concat(ROWS, n, m, product(t, n, p, x, b), product(t, m, p, y, b))
    second = concat(COLUMNS, n, m, product(t, p, n, b, x), product(t, p, m, b, y))
    yield TermEquation(product(t, q, p, concat(ROWS, n, m, x, y), b), first)
    yield TermEquation(product(t, p, q, b, concat(ROWS, n, m, x, y)), second)
    yield TermEquation(first, product(t, n + m, p, concat(ROWS, n, m, x, y), b))
    yield TermEquation(second, product(t, p, n + m, b, concat(ROWS, n, m, x, y)))


@term_law
def product_of_padded_k(
    t: Variable, m: Variable, n: Variable, u: Variable, k: Variable, s: Variable, a: Variable, b: Variable
) -> Equations:
    """[0 A 0] B^T  =  A (B without the columns that meet zeros)^T, and the other way round"""
    yield TermEquation(product(t, m, n, pad(COLUMNS, u, k, s, a), b), product(t, m, n, a, slice_(COLUMNS, u, k, s, b)))
    yield TermEquation(product(t, m, n, b, pad(COLUMNS, u, k, s, a)), product(t, m, n, slice_(COLUMNS, u, k, s, b), a))


@term_law
def product_of_padded_rows(
    t: Variable, u: Variable, m: Variable, n: Variable, s: Variable, a: Variable, b: Variable
) -> Equations:
    """[0; A; 0] B^T  =  [0; A B^T; 0], and B [0; A; 0]^T  =  [0, B A^T, 0]; both ways"""
    first, second = pad(ROWS, u, m, s, product(t, m, n, a, b)), pad(COLUMNS, u, m, s, product(t, n, m, b, a))
    yield TermEquation(product(t, s, n, pad(ROWS, u, m, s, a), b), first)
    yield TermEquation(product(t, n, s, b, pad(ROWS, u, m, s, a)), second)
    yield TermEquation(first, product(t, s, n, pad(ROWS, u, m, s, a), b))
    yield TermEquation(second, product(t, n, s, b, pad(ROWS, u, m, s, a)))


@term_law
def asked_for(h: Variable, i: Variable, x: Variable) -> Equations:
    """X that is asked for  =  X"""
    yield TermEquation(asked(h, i, x), x)


@term_law
def products_of_one_operand(
    h: Variable,
    i: Variable,
    j: Variable,
    t: Variable,
    m: Variable,
    n: Variable,
    p: Variable,
    a: Variable,
    b: Variable,
    c: Variable,
) -> Equations:
    """A B^T  =  [A B^T, A C^T][:, :n] where A C^T is asked for too, and so on its other side, and of one B"""
    for axis, one, other in (
        (COLUMNS, product(t, m, n, a, b), product(t, m, p, a, c)),
        (ROWS, product(t, n, m, b, a), product(t, p, m, c, a)),
    ):
        both = asked(h, j, concat(axis, n, p, one, other))
        first, second = asked(h, i, one), asked(j, j, other)
        yield TermEquation(first, slice_(axis, 0, n, n + p, both), (i < j,), second)
        yield TermEquation(second, slice_(axis, n, p, n + p, both), (i < j,), first)


@term_law
def part_of_concat(
    axis: Variable,
    h: Variable,
    i: Variable,
    t: Variable,
    m: Variable,
    n: Variable,
    p: Variable,
    q: Variable,
    a: Variable,
    b: Variable,
    y: Variable,
) -> Equations:
    """X  =  [X Y][:n], and Y  =  [X Y][n:], of products that are asked for, where the concatenation is wanted too"""
    one = product(t, m, n, a, b)
    for x, begin in ((concat(axis, p, q, one, y), 0), (concat(axis, p, q, y, one), p)):
        part = p if begin == 0 else q
        yield TermEquation(asked(h, i, one), slice_(axis, begin, part, p + q, x), (), x)
