"""Laws of words: the same bits counted in another element size. Written [word] extent:source->target/tile."""

from legalsat.law import Equations, Int, divides, law, mode, rewrite

# Packed 4- and 6-bit elements become bytes, which every copy engine moves. Words wider than the element gain nothing
# that a second dimension does not, and arrays can rarely be viewed so.
RECASTS = ((4, 8), (6, 8))


@law
def recast_to_wider_words(n: Int, t: Int) -> Equations:
    """[b] n:b->b/t  =  [c] (nb/c):c->c/(tb/c)  where c divides nb and tb"""
    for narrow, wide in RECASTS:
        yield rewrite(mode(n, narrow, narrow, t), words=(narrow, wide)).to(
            mode(n * narrow // wide, wide, wide, t * narrow // wide),
            when=(divides(wide, n * narrow), divides(wide, t * narrow)),
        )


@law
def split_double_words(n: Int, s: Int, d: Int, t: Int) -> Equations:
    """[64] n:s->d/t  =  [32] 2:32->32/2, n:s->d/t"""
    yield rewrite(mode(n, s, d, t), words=(64, 32)).to(mode(2, 32, 32, 2), mode(n, s, d, t))
