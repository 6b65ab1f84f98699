"""Terms in the e-graph: movements, whose laws are about lists of modes, and products, whose laws are about trees."""

from legalsat.terms.accesses import Classes, Graph

__all__ = ["Classes", "Graph"]
