"""Why a tensor has no tensor map, and what each repair costs and gains."""

import legalsat as ls

tensor = ls.Tensor((4096, 4095), "bf16")
found = ls.explain(tensor, "h200", tile=(128, 64), uses=1000)
for reason in found.diagnostics:
    print(reason)
for repair in found.repairs:
    print(f"{repair.kind}: {repair.total / 1000:.0f} us in all for 1000 uses, pays from {repair.pays_from} uses on")
