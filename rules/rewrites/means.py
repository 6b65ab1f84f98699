"""Laws of movements: every means delivers the same tiles. Rules say which of them are legal, the cost which is best."""

from legalsat.law import Equations, law, rewrite


@law
def deliver_by_boxes() -> Equations:
    """A by any means  =  A by tma: the copy engine fetches a tile as boxes of one tensor map"""
    yield rewrite(means=("any", "tma")).to()


@law
def deliver_in_phases() -> Equations:
    """A by any means  =  A by tma.phases: rows n apart share a tensor map, whose pitch is legal"""
    yield rewrite(means=("any", "tma.phases")).to()


@law
def deliver_by_windows() -> Equations:
    """A by any means  =  A by im2col: the copy engine walks the windows of a convolution, from row to row of pixels"""
    yield rewrite(means=("any", "im2col")).to()


@law
def deliver_by_runs() -> Equations:
    """A by any means  =  A by bulk: the copy engine fetches each contiguous run, without a tensor map"""
    yield rewrite(means=("any", "bulk")).to()


@law
def deliver_by_async_copies() -> Equations:
    """A by any means  =  A by cp.async: threads ask for 4, 8 or 16 bytes each, which arrive in shared memory"""
    yield rewrite(means=("any", "cp.async")).to()


@law
def deliver_by_loads() -> Equations:
    """A by any means  =  A by threads: threads load 1 to 16 bytes each into registers"""
    yield rewrite(means=("any", "threads")).to()


@law
def deliver_by_granules() -> Equations:
    """A by any means  =  A by granules: threads move 16 bytes each, wherever in them rows begin, the whole A at once"""
    yield rewrite(means=("any", "granules")).to()


@law
def deliver_in_fragments() -> Equations:
    """A by any means  =  A by fragments: threads load what the matrix unit wants in registers"""
    yield rewrite(means=("any", "fragments")).to()
