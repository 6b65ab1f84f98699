"""A tile for wgmma in a kernel of one's own: the map's encode call, which boxes to load, and the descriptor's steps."""

from pathlib import Path

import legalsat as ls

plan = ls.synthesize(ls.Tensor((4096, 4096), "bf16"), "h200", tile=(128, 64), consumer="wgmma.a")
lines = str(plan).splitlines()
begin = lines.index("coordinates")
print("\n".join(lines[begin : lines.index("", begin)]))
Path("maps.h").write_text(plan.emit("host"))  # C++: encode_source_map(&map, address)
