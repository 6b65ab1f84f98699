"""The laws of rewriting, in `LAWS`."""

from types import ModuleType

from legalsat.law import Law
from legalsat.rules.rewrites import means, modes, words


def laws_in(*modules: ModuleType) -> tuple[Law, ...]:
    """Return the laws that the modules hold, in the order they are written."""
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Law))


LAWS = laws_in(modes, words, means)
