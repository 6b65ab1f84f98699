"""What must hold (legality rules, in `RULES`) and what may be rewritten (`legalsat.rules.rewrites`)."""

from legalsat.rule import rules_in
from legalsat.rules import movement, tma, tma_im2col, tma_packed, tma_tiled, tma_unenforced, vectors, wgmma, windows

TENSOR_MAP_RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced)
RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced, movement, vectors, wgmma, windows)
# By what they judge; a rule's first parameter says it.
COPY_RULES = tuple(rule for rule in RULES if rule.site == "TmaCopy")
SHARED_RULES = tuple(rule for rule in RULES if rule.site == "SharedStages")
MOVEMENT_RULES = tuple(rule for rule in RULES if rule.site == "Movement")
VECTOR_RULES = tuple(rule for rule in RULES if rule.site == "VectorAccess")
REGISTER_RULES = tuple(rule for rule in RULES if rule.site == "RegisterTile")
