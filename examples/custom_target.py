"""A GPU that no table describes: another one's table with numbers of its own."""

from dataclasses import replace

import legalsat as ls
from legalsat.targets import target

smaller = replace(target("h200"), name="half an H200", shared_bytes_per_block=100 * 1024)
tensor = ls.Tensor((4096, 4096), "bf16")
for gpu in (target("h200"), smaller):
    plan = ls.synthesize(tensor, gpu, tile=(128, 128), consumer="wgmma.a")
    print(f"{gpu}: {plan.pipeline.stages} stages, {plan.cost.shared_bytes} bytes a block")
