"""Pictures of what was measured on a GPU: products beside cuBLAS, relayouts beside a copy.

python -m bench.gpu.plots    # from bench/gpu/results to docs/plots
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PLOTS = Path(__file__).parents[2] / "docs" / "plots"
BAR, LINE = "#3b6ea5", "#888888"


def bars(name: str, rows: list[tuple[str, float]], title: str, note: str) -> None:
    """Draw a horizontal bar for each row, and a line at 1."""
    import matplotlib as mpl  # noqa: PLC0415 - only pictures need it

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "legalsat"  # the same picture each time
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.19 * len(rows)))
    labels, values = zip(*rows, strict=True)
    places = range(len(rows))
    axes.barh(places, values, color=BAR, height=0.7)
    axes.set_yticks(places, labels, fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.axvline(1, color=LINE, linewidth=1)
    axes.set_xlabel(note, fontsize=8)
    axes.set_title(title, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Draw all."""
    rows: list[dict[str, Any]] = [row for row in json.loads((RESULTS / "gemm.json").read_text())["rows"] if row["us"]]
    for kind, rival, title in (
        ("legal", "cublas", "Legal products, bf16"),
        ("narrow", "cublas", "Legal products, e4m3"),
        ("illegal", "nearest", "Products with an operand that no tensor map describes"),
    ):
        mine = [(row["shape"], row["rivals_us"][rival] / row["us"]) for row in rows if row["kind"] == kind]
        what = "cuBLAS of the same shape = 1" if rival == "cublas" else "cuBLAS of the nearest legal shape = 1"
        bars(f"gemm_{kind}", mine, f"{title} on an H200, L2 cold", f"speed, {what}")
    timed = json.loads((RESULTS / "relayout.json").read_text())["timed"]
    moved = [(name, one["usual_of_copy"]) for name, one in timed.items()]
    bars("relayout", moved, "Relayouts on an H200, 256 MB and above", "bandwidth, a device-to-device copy's = 1")


if __name__ == "__main__":
    main()
