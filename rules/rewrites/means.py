"""Laws of movements: every means delivers the same tiles. Rules say which of them are legal, the cost which is best."""

from legalsat.law import Equations, Law, law, rewrite
from legalsat.units.means import ANY, MEANS, Means


def _delivers(means: Means) -> Law:
    """Return the law that chooses a means."""

    def equations() -> Equations:
        yield rewrite(means=(ANY, means.name)).to()

    equations.__name__, equations.__doc__ = means.law, f"A by {ANY} means  =  A by {means.name}: {means.does}"
    return law(equations)


MEANS_LAWS = tuple(_delivers(one) for one in MEANS.values())
