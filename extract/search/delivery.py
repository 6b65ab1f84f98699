"""What every means of delivery is asked, and what it answers: the fields of a plan, or the rules that forbid it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.cost.cost import WAITING_STORE
from legalsat.extract.search.columns import Column, column_of, column_views, walked, window_of
from legalsat.extract.search.schedule import MAX_STAGES
from legalsat.extract.search.views import turned, view_of, views_of
from legalsat.operators import MATRIX_CONSUMERS, Move, k_major
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import Granules, MovementCost, Phase, SharedTile, VectorCopy, View
from legalsat.rules import MOVEMENT_RULES
from legalsat.targets import Target
from legalsat.units.means import MEANS
from legalsat.units.sites import Movement
from legalsat.units.tensor_map import TensorMap
from legalsat.units.windows import Window
from legalsat.view.margins import Margin

# Who works on a stage while the next ones load. A movement has nothing to work on: one block a tile, several blocks on
# a processor, was as fast as every ring or faster (bench/gpu/results/copies.json, ring_of_*).
RING_CONSUMERS = MATRIX_CONSUMERS


@lru_cache(maxsize=32)
def solver_of(means: str) -> Any:
    """Return the module that answers for a means.

    It has `bound(question)`, a cost that no solution is below; `solve(question)`, the fields or why there are none; and
    `check(plan, question)`, which raises `InvalidPlan` unless a plan's fields are those of the means.
    """
    return import_module(f"{__package__}.{MEANS[means].solver}")


@dataclass(frozen=True)
class Question:
    """An access to deliver for an operator on a target; at `deadline`, by `time.monotonic()`, the solver gives up.

    `seen` is the number of the way in which both sides are seen.
    """

    operator: Move
    access: Access
    target: Target
    deadline: float | None = None
    seen: int = 0

    @cached_property
    def sights(self) -> tuple[tuple[View, View], ...]:
        """The ways in which either side may see the access, the source first."""
        if self.column is None or self.window is None:
            return views_of(self.access, self.margins or (), stores=not self.operator.loads_only)
        load, store = column_views(self.access, self.window)
        return ((load, store or view_of(self.access, "target")),)

    @property
    def views(self) -> tuple[View, View]:
        """How either side sees the access, the source first."""
        return self.sights[self.seen]

    @cached_property
    def window(self) -> Window | None:
        """The window that the access runs over, where its means must know."""
        return window_of(self.operator, self.access)

    @cached_property
    def column(self) -> Column | None:
        """What windows fix of the load's map, where columns of pixels are loaded."""
        return column_of(self.operator, self.access)

    @cached_property
    def margins(self) -> tuple[Margin, ...] | None:
        """Which words of each mode the source of a padding has; None if the access lost its modes."""
        return self.operator.margins(self.access)

    @property
    def walked(self) -> Access:
        """The access as its tiles are counted."""
        return walked(self.access, self.window)

    @property
    def ways(self) -> tuple[tuple[View, ...], ...]:
        """The views of a load and a store by boxes, and of a load whose tile threads store, or nobody does.

        Only boxes that run over pixels as the columns do can store these.
        """
        load, store = self.views
        if self.operator.loads_only:
            return ((load,),)
        alike = self.column is None or load.groups == store.groups
        return ((load, store), (load,)) if alike else ((load,),)

    @property
    def judged_ends(self) -> tuple[View, ...]:
        """The views of the memory that is touched."""
        return self.views[:1] if self.operator.loads_only else self.views

    def stores_by(self, views: tuple[View, ...]) -> str:
        """Return who stores, where a plan has these views."""
        return "none" if self.operator.loads_only else "tma" if len(views) > 1 else "threads"

    @property
    def times(self) -> int:
        """How often every tile is delivered."""
        return self.operator.passes

    @property
    def most_stages(self) -> int:
        """Stages that a ring may have; a movement that nobody works on takes one."""
        return MAX_STAGES if self.operator.consumer in RING_CONSUMERS else 1

    @property
    def store_factor(self) -> float:
        """How much longer threads take to store a tile from shared memory than boxes do; 0 where nothing is stored."""
        if self.operator.loads_only:
            return 0.0
        return 1.0 if self.operator.consumer in RING_CONSUMERS else WAITING_STORE

    @property
    def turned(self) -> bool:
        """Whether threads must turn the tile on its way."""
        return self.column is None and not self.operator.loads_only and turned(*self.views)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile."""
        bits = self.access.word
        for mode in self.access.modes:
            bits *= mode.tile
        return -(-bits // 8)

    def judged(self, *, row_bytes: int = 0, shifted: bool = False, scattered: int = 0) -> tuple[Diagnostic, ...]:
        """Return what the rules say of the movement as a whole."""
        operator, access = self.operator, self.access
        movement = Movement(
            word=access.word,
            consumer=operator.consumer,
            element=operator.source.dtype.name,
            tile=operator.tile or (),
            k_major=k_major(operator.source),
            by=access.by,
            row_bytes=row_bytes,
            shifted=shifted,
            windows=bool(operator.sweeps),
            leaves=bool(operator.sweeps) and operator.fills,
            padding=operator.fills and not operator.sweeps,
            zeros=operator.pattern == 0,
            scattered=scattered,
            read=operator.reader is not None,
        )
        return tuple(diagnostic for rule in MOVEMENT_RULES for diagnostic in rule.check(movement, self.target))


@dataclass(frozen=True, slots=True)
class Delivered:
    """The fields of a plan that a means of delivery solves; see `Plan` for what they are."""

    access: Access
    views: tuple[View, View]
    tensor_maps: tuple[TensorMap, ...]
    copies: tuple[VectorCopy, ...]
    phases: tuple[Phase, ...]
    store: str
    shared: tuple[SharedTile, ...]
    stages: int
    cost: MovementCost
    granules: Granules | None = None
