"""Plots of `bench.speed`: how the time of a cold plan and the e-graph grow with rank and with K."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Which series, its title, the name of its axis, whether that grows by doubling.
PLOTS = (
    ("growth_with_rank", "Cold plan of a tile, copy or transpose", "rank", False),
    ("growth_with_k_tile", "Cold plan of a 128 x 64 tile of 4096 x K", "K", True),
    ("growth_with_k_product", "Cold plan of a product, 4096 x 4096 x K", "K", True),
)
WIDTH, HEIGHT = 6.4, 3.6  # inches


def draw(found: dict[str, Any], folder: Path) -> str:
    """Draw every growth of a measurement into `folder` as SVG; return what was drawn, or why nothing was."""
    try:
        import matplotlib  # noqa: PLC0415 - an extra
    except ImportError:
        return "no plots, since matplotlib is not installed; install the extra bench"
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "legalsat"  # so that the same figures are the same file
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [_draw(found, folder, plot) for plot in PLOTS]
    return f"drawn: {', '.join(drawn)}"


def _draw(found: dict[str, Any], folder: Path, plot: tuple[str, str, str, bool]) -> str:
    from matplotlib import pyplot  # noqa: PLC0415

    name, title, axis, doubles = plot
    points = found[name]
    odd = [point for point in points if point["at"] % 2] if doubles else []
    groups = {"": points} if not odd else {" (K even)": [p for p in points if p not in odd], " (K odd)": odd}
    figure, times = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
    counts = times.twinx()
    for (which, ones), color in zip(groups.items(), ("tab:blue", "tab:orange"), strict=False):
        places = [point["at"] for point in ones]
        for axes, what, style in ((times, "wall", "o-"), (times, "processor", "s--"), (counts, "nodes", "^:")):
            values, label = [point[what] for point in ones], what if what == "nodes" else f"{what} time"
            axes.plot(places, values, style, color=color, markersize=4, label=label + which)
    times.set(title=title, xlabel=axis, ylabel="milliseconds, median", ylim=(0, None))
    if doubles:
        times.set_xscale("log", base=2)
    counts.set(ylabel="e-graph nodes, most", ylim=(0, 1.1 * found["asked"]["nodes"]))
    counts.axhline(found["asked"]["nodes"], color="tab:gray", linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    path = folder / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return path.name
