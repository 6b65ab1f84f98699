"""Why a product's pipeline is as it is: what bounds a turn of its loop, how many stages that takes, how it is made."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.extract.blocks.cost import course, load_nanoseconds, multiply_nanoseconds
from legalsat.extract.blocks.modulo import After, ModuloSchedule, Step, modulo_schedule
from legalsat.extract.cost.cost import NANOSECONDS_PER_BOX
from legalsat.plans.block_plan import LOAD_NANOSECONDS, BlockPlan

ENGINE, MEMORY, MATRIX = "copy engine", "memory", "matrix unit"
HANDOVER_NANOSECONDS = 95  # from an arrival until another warp is through its wait; measured with the loads


@dataclass(frozen=True, slots=True)
class AsyncPlan:
    """The schedule of a turn along K, and how many stages it takes to keep it.

    Attributes:
        schedule: of the loads and the multiplication of one turn.
        needed: stages that the schedule holds at once. fit: that shared memory has room for and the plan uses.
        interval: nanoseconds between turns with the stages that fit.
        reasons: sentences that say why, one a choice.
    """

    schedule: ModuloSchedule
    needed: int
    fit: int
    interval: int
    reasons: tuple[str, ...]


def async_plan(plan: BlockPlan) -> AsyncPlan:
    """Return the schedule of a product's loop, from the rates that the cost model uses."""
    steps, waits = turn_of(plan)
    multiply = steps[-1]
    schedule = modulo_schedule(steps, waits)
    needed = schedule.stages(steps[0].name, multiply)
    interval = schedule.interval
    if needed > plan.stages:  # a stage is refilled once it has been multiplied, and no sooner
        refill = After(multiply.name, steps[0].name, plan.stages)
        interval = modulo_schedule(steps, (*waits, refill)).interval
    return AsyncPlan(schedule, needed, plan.stages, interval, _reasons(plan, schedule, needed, interval))


def turn_of(plan: BlockPlan) -> tuple[tuple[Step, ...], tuple[After, ...]]:
    """Return the steps of a turn, the multiplication last, and which waits for which."""
    active = course(plan.operator, plan.tile, plan.blocks, plan.target).active
    busy = max(1, round(multiply_nanoseconds(plan.operator, plan.tile, plan.target)))
    multiply = Step("multiply", MATRIX, busy, busy)
    steps: list[Step] = []
    waits: list[After] = []
    arrives = LOAD_NANOSECONDS + HANDOVER_NANOSECONDS
    for name, one in (("A", plan.a), ("B", plan.b)):
        if not one.shared:
            continue
        buffer = one.shared[0]
        ask = Step(f"load {name}", ENGINE, round(max(1, buffer.boxes) * NANOSECONDS_PER_BOX), 0)
        brings = round(load_nanoseconds(plan.operator, buffer.bytes, active, plan.target))
        bring = Step(f"bring {name}", MEMORY, brings, arrives)
        steps += [ask, bring]
        waits += [After(ask.name, bring.name), After(bring.name, multiply.name)]
    waits.append(After(multiply.name, multiply.name, 1))
    return (*steps, multiply), tuple(waits)


def _reasons(plan: BlockPlan, schedule: ModuloSchedule, needed: int, interval: int) -> tuple[str, ...]:
    bound = " and ".join(schedule.bound_by)
    held = needed * schedule.interval
    stages = f"{plan.stages} stages fit into shared memory"
    if needed <= plan.stages:
        enough = f"a stage is held for up to {held} ns, so {needed} keep it busy; {stages}"
    else:
        enough = f"{needed} would keep it busy, but {stages}, so a turn takes {interval} ns"
    loads = "loads complete on an mbarrier, since several warps wait for them and the copy engine counts their bytes"
    stores = "stores of C form a bulk group, since the thread that issued them is the one that waits"
    frees = "tcgen05.commit releases a stage, since it arrives when the multiplication is over"
    return (
        f"a turn of {plan.tile[2]} elements along K takes {schedule.interval} ns, bound by the {bound}",
        enough,
        loads,
        frees,
        *((stores,) if plan.c.store == "tma" else ()),
    )
