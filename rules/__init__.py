"""What must hold (legality rules, in `RULES`) and what may be rewritten (`legalsat.rules.rewrites`)."""

from legalsat.rule import rules_in
from legalsat.rules import movement, tma, tma_im2col, tma_packed, tma_tiled, tma_unenforced

TENSOR_MAP_RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced)
RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced, movement)
SHARED_RULES = (movement.shared_memory_exceeded,)
COPY_RULES = tuple(rule for rule in RULES if rule.unit is not movement.GPU)
