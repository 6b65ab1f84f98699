"""Laws of modes. Written extent:source->target/tile, fastest first."""

from legalsat.law import Equations, Int, divides, law, less, mode, rewrite
from legalsat.targets import MAX_BOX_EXTENT

# A box spans so many elements along a dimension at most, so a longer tile gains from a second dimension.
SPLITS = (256, 128, 64, 32, 16, 8, 4, 2)
ODD_SPLITS = (3, 5, 7)


@law
def drop_unit_mode(s: Int, d: Int) -> Equations:
    """1:s->d/1  =  nothing"""
    yield rewrite(mode(1, s, d, 1)).to()


@law
def restride_unit_mode(s: Int, d: Int, t: Int) -> Equations:
    """1:s->d/t  =  1:0->0/t  where 0 < s, since nothing is ever a stride away"""
    yield rewrite(mode(1, s, d, t)).to(mode(1, 0, 0, t), when=(less(0, s),))


@law
def merge_adjacent_modes(n: Int, m: Int, s: Int, d: Int, t: Int) -> Equations:
    """n:s->d/n, m:ns->nd/t  =  nm:s->d/nt"""
    yield rewrite(mode(n, s, d, n), mode(m, n * s, n * d, t)).to(mode(n * m, s, d, n * t))


@law
def merge_row_tiles(n: Int, m: Int, s: Int, d: Int, t: Int) -> Equations:
    """n:s->d/t, m:ns->nd/1  =  nm:s->d/t  where t divides n"""
    yield rewrite(mode(n, s, d, t), mode(m, n * s, n * d, 1)).to(mode(n * m, s, d, t), when=(divides(t, n),))


@law
def split_long_tile(n: Int, s: Int, d: Int, t: Int) -> Equations:
    """n:s->d/t  =  k:s->d/k, n/k:ks->kd/(t/k)  where k divides n and t, and t is longer than a box can be"""
    for k in SPLITS + ODD_SPLITS:
        # One split a mode, at the largest power of two: where twice as much does not divide n, or does not divide t.
        twice = 2 if k in ODD_SPLITS else 2 * k
        larger = [(less(0, number % twice),) for number in (n, t)] if k < SPLITS[0] else [()]
        for none_larger in larger:
            yield rewrite(mode(n, s, d, t)).to(
                mode(k, s, d, k),
                mode(n // k, s * k, d * k, t // k),
                when=(divides(k, n), divides(k, t), less(MAX_BOX_EXTENT, t), *none_larger),
            )


@law
def permute_modes(n: Int, s: Int, d: Int, t: Int, m: Int, r: Int, e: Int, u: Int) -> Equations:
    """n:s->d/t, m:r->e/u  =  m:r->e/u, n:s->d/t"""
    yield rewrite(mode(n, s, d, t), mode(m, r, e, u)).to(mode(m, r, e, u), mode(n, s, d, t))
