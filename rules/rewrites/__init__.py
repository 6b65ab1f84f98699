"""The laws of rewriting: of movements in `LAWS`, of products in `PRODUCT_LAWS`, of programs in `VALUE_LAWS`."""

from types import ModuleType

from legalsat.law import Law
from legalsat.rules.rewrites import means, modes, products, values, words
from legalsat.terms.trees import TermLaw


def laws_in(*modules: ModuleType) -> tuple[Law, ...]:
    """Return the laws that the modules hold, in the order they are written."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Law))


LAWS = (*laws_in(modes, words), *means.MEANS_LAWS)
PRODUCT_LAWS, VALUE_LAWS = (
    tuple(value for value in vars(module).values() if isinstance(value, TermLaw)) for module in (products, values)
)
