"""A tile for wgmma in a kernel of one's own: the map's encode call, which boxes to load, and the descriptor's steps."""

from pathlib import Path

import legalsat as ls

rows = ls.Copy(ls.Tensor((4096, 4096), "bf16"), tile=(128, 64), consumer="wgmma.a", into="shared", axes=("row", "k"))
plan = ls.synthesize(rows, "h200")
lines = str(plan).splitlines()
begin = lines.index("coordinates")
print("\n".join(lines[begin : lines.index("", begin)]))
Path("maps.h").write_text(plan.emit("host"))  # C++: encode_source_map(&map, address)
