"""What must hold (legality rules, in `RULES`) and what may be rewritten (`legalsat.rules.rewrites`)."""

from legalsat.rule import rules_in
from legalsat.rules import movement, tma, tma_im2col, tma_packed, tma_tiled, tma_unenforced

TENSOR_MAP_RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced)
RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced, movement)
SHARED_RULES = (movement.shared_memory_exceeded,)
MOVEMENT_RULES = (
    movement.elements_share_bytes,
    movement.no_tensor_memory_accelerator,
    movement.no_warpgroup_matrix_multiply,
)
COPY_RULES = tuple(rule for rule in RULES if rule not in (*SHARED_RULES, *MOVEMENT_RULES))
