"""For every rule of `legalsat.rules.RULES`: a site that it refuses, and the same site repaired, by code."""

from legalsat.rules.examples import matrix_units, movements, pipelines, tcgen05, tensor_copies, tensor_maps
from legalsat.rules.examples.example import Example

__all__ = ["EXAMPLES", "Example"]

EXAMPLES: tuple[Example, ...] = (
    *tensor_maps.EXAMPLES,
    *tensor_copies.EXAMPLES,
    *movements.EXAMPLES,
    *matrix_units.EXAMPLES,
    *tcgen05.EXAMPLES,
    *pipelines.EXAMPLES,
)
