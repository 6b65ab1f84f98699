"""A rule of one's own beside the library's: tensor maps of this house have boxes of whole cache lines."""

import legalsat as ls
from legalsat.rule import Requirements, Source, require
from legalsat.rules import TENSOR_MAP_RULES, judge
from legalsat.rules.tma import TMA
from legalsat.targets import TmaLimits
from legalsat.units.sites import TmaCopy


@TMA.rule("HOUSE001", Source("our handbook, loads", "box").saying("whole cache lines"), refused_by="document")
def row_of_a_part_of_a_line(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Rows of a box are whole lines of 128 bytes; what a load leaves of one is read again by the next."""
    yield require(
        copy.inner_bytes % 128 == 0,
        "rows of the box have {bytes} bytes, no multiple of 128",
        help="widen the box to a multiple of 128 bytes",
        bytes=copy.inner_bytes,
    )


tm = ls.TensorMap(dtype="bf16", global_dim=(4095, 4096), global_stride=(8190,), box=(32, 128), swizzle="64B")
for diagnostic in judge(TmaCopy.of(tm), "h200", (*TENSOR_MAP_RULES, row_of_a_part_of_a_line)):
    print(diagnostic, end="\n\n")
