"""What the instructions that matter do on the machine: memory, barriers, groups, lanes that talk to each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from legalsat.analyses.ptx.contract_values import agrees, lanes_agree
from legalsat.analyses.ptx.findings import ARRIVAL, Undecided
from legalsat.analyses.ptx.instruction import Instruction, operation_of, results_of, vector, width_of
from legalsat.analyses.ptx_machine import cancel, copies, fences, maps, rows, tickets
from legalsat.analyses.ptx_machine.alu import FULL, LANES, Value, all_same, lanes_of
from legalsat.analyses.ptx_machine.guards import active, assign, guard_of
from legalsat.analyses.ptx_machine.launches import data
from legalsat.analyses.ptx_machine.launches.loads import parameter_of
from legalsat.analyses.ptx_machine.machine import BLOCK, PARK, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.matrix import tcgen05, wgmma
from legalsat.analyses.ptx_machine.memory import NOWHERE, SHARED_BASE, SHARED_BYTES, in_words, place_of
from legalsat.analyses.ptx_machine.places import Place, Places
from legalsat.analyses.ptx_machine.waits import Wait

EFFECTS = {"mbarrier", "cp", "wgmma", "tcgen05", "fence", "st", "ldmatrix", "stmatrix", "setmaxnreg", "tensormap",
           "atom", "red", "membar", "clusterlaunchcontrol", "multimem"}  # fmt: skip
MOST_NAMED = 15  # barriers of a block are numbered from 0 (FACTS HW-14)
_OTHER_SPACES = {"global", "param", "const", "local"}


def space_of(i: Instruction) -> str:
    """Return the memory of a load or store: "shared", "" for generic, or another one's name."""
    return _space(i.parts)


@lru_cache(maxsize=1 << 12)
def _space(parts: tuple[str, ...]) -> str:
    for part in parts:
        if part.startswith("shared"):
            return "shared"
        stem = part.split("::")[0]
        if stem in _OTHER_SPACES:
            return stem
    return ""


def is_effect(i: Instruction) -> bool:
    """Does an instruction do something that the contract is about?"""
    base, parts = i.base, i.parts
    if base in {"st", "ld", "atom", "red"}:
        return space_of(i) in {"shared", ""}
    if base == "fence":
        return (
            parts[1] == "mbarrier_init"
            or fences.releases(i)
            or (
                # A fence of global memory alone says nothing of shared memory.
                parts[1] == "proxy" and parts[2:3] != ("alias",) and "global" not in parts
            )
        )
    if base == "cp":
        return "prefetch" not in parts
    if base == "membar":
        return fences.releases(i)
    return base in EFFECTS


def steering_operands(i: Instruction) -> tuple[str, ...]:
    """Return the operands of an effect that must be known."""
    base, parts, operands = i.base, i.parts, i.operands
    if base in {"wgmma", "tcgen05"}:
        return wgmma.steering(i) if base == "wgmma" else tcgen05.steering(i)
    if base == "cp":
        return copies.steering(i)
    if base == "fence":
        return operands[:1]
    if base == "tensormap":
        needed = parts[1] == "cp_fenceproxy" or parts[3] in {"box_dim", "elemtype", "rank"}
        return operands if needed else operands[:1]
    if base in {"st", "stmatrix", "red"}:
        return operands[:1]
    return operands if parts[1] in {"init", "inval", "try_cancel", "expect_tx", "complete_tx"} else operands[1:]


def traced_operands(i: Instruction) -> tuple[str, ...]:
    """Return the operands of an effect that say what it does, with coordinates and addresses in global memory."""
    if i.base != "cp":
        return steering_operands(i)
    return i.operands[:-1] if "L2::cache_hint" in i.parts else i.operands


def moves_global(i: Instruction) -> bool:
    """Is an instruction a load from global memory, or a store to it?"""
    return i.base in {"ld", "st"} and space_of(i) == "global"


def counted_operands(i: Instruction) -> tuple[str, ...]:
    """Return the operands of an effect that are numbers: of a barrier, of arrivals, of threads or of bytes."""
    if i.base in {"bar", "barrier"}:
        return () if i.parts[1:2] in {("warp",), ("cluster",)} else i.operands
    if i.base == "mbarrier":
        counts = {"init": 1, "arrive": 2, "arrive_drop": 2, "expect_tx": 1, "complete_tx": 1}.get(i.parts[1])
        return i.operands[counts:] if counts is not None else ()
    return i.operands[2:3] if i.base == "cp" and "bulk" in i.parts and "tensor" not in i.parts else ()


def make(program: Any, i: Instruction, at: int) -> Operation:
    """Return what an effect does.

    Raises:
        Undecided: it is not understood.
    """
    if i.base == "mbarrier":
        return _barrier(program, i, at)
    if i.base == "fence" and "tensormap" in i.name:
        return maps.make_fence(program, i)
    if i.base == "st" and space_of(i) == "global":
        return _nothing(program, i) if program.traced else maps.make_store(program, i)
    if tickets.draws(i):
        return tickets.make(program, i)
    makers: dict[str, Callable[[Any, Instruction], Operation]] = {
        "clusterlaunchcontrol": cancel.make,
        "bar": _meeting,
        "barrier": _meeting,
        "cp": copies.make,
        "wgmma": wgmma.make,
        "tcgen05": tcgen05.make,
        "st": _store,
        "ldmatrix": rows.make,
        "stmatrix": rows.make,
        "fence": fences.make,
        "membar": fences.make,
        "setmaxnreg": _nothing,
        "tensormap": maps.make_edit,
        "atom": _atomic,
        "red": _atomic,
    }
    return makers.get(i.base, refused)(program, i)


def _nothing(program: Any, i: Instruction) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        return None

    return operation


def refused(program: Any, i: Instruction, what: str = "") -> Operation:
    """Return what stops the run where an instruction is reached that is not followed; `what` it is, in words."""
    guard, line, name = guard_of(program, i), i.line, what or operation_of(i.name)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if active(part, guard, line):
            raise Undecided(line, f"{name} is not followed")
        return None

    return operation


def known_lanes(part: Part, place: int, offset: int, lanes: int, line: int) -> Any:
    """Return addresses: an int where all agree, else an array of those of the lanes."""
    value = part.registers[place]
    if type(value) is int:
        return value + offset
    if value is None:
        raise Undecided(line, "an address depends on data")
    chosen = value if lanes == FULL else value[lanes_of(lanes)]
    if all_same(chosen):
        return int(chosen[0]) + offset
    return chosen.astype(np.int64) + offset


def one_address(part: Part, place: int, offset: int, lanes: int, line: int) -> int:
    """Return an address that all lanes agree on."""
    value = part.registers[place]
    if type(value) is int:
        return value + offset
    found = known_lanes(part, place, offset, lanes, line)
    if not isinstance(found, int):
        raise Undecided(line, "lanes use different addresses here")
    return found


def shared_places(part: Part, place: int, offset: int, lanes: int, line: int) -> Any:
    """Return bytes of the machine's shared memory: an int where all lanes agree, else an array of those of the lanes.

    Raises:
        Undecided: the addresses are not known.
    """
    value = part.registers[place]
    if type(value) is int and 0 <= value + offset < SHARED_BYTES:
        return value + offset
    return _held(place_of(known_lanes(part, place, offset, lanes, line)), line)


def _held(places: Any, line: int) -> Any:
    """Return places, if all lie in the shared memory of a CTA."""
    most = places if isinstance(places, int) else int(places.max())
    if most >= NOWHERE:
        raise Undecided(line, f"shared byte {in_words(most)} is none of the {SHARED_BYTES - SHARED_BASE} of a block")
    return places


def shared_place(part: Part, place: int, offset: int, lanes: int, line: int) -> int:
    """Return the byte of the machine's shared memory that all lanes agree on.

    Raises:
        Undecided: the address is not known, or not the same in all lanes.
    """
    address = one_address(part, place, offset, lanes, line)
    if 0 <= address < SHARED_BYTES:
        return address
    found: int = _held(place_of(address), line)
    return found


# Barriers.


def _meeting(program: Any, i: Instruction) -> Operation:
    parts, line = [p for p in i.parts if p not in {"cta", "aligned"}], i.line
    guard = guard_of(program, i)
    if parts[1] == "warp":

        def lanes_meet(run: Run, warp: Warp, part: Part) -> int | None:
            if part.mask != warp.live:
                return PARK
            warp.worker.meet()
            return None

        return lanes_meet
    if parts[1] == "cluster":
        kind, relaxed = parts[2], "relaxed" in parts

        def cluster(run: Run, warp: Warp, part: Part) -> int | None:
            if part.mask != warp.live:
                return PARK
            if kind == "arrive":
                warp.counts["cluster"] = warp.counts.get("cluster", 0) + 1
                number = warp.counts["cluster"]
                run.cluster_arrive(number, warp, part, line, relaxed=relaxed)
                return None
            return run.cluster_wait(warp.counts.get("cluster", 0), warp, part)

        return cluster
    operands = list(i.operands)
    if parts[1] == "red":
        operands = operands[1:]
    number = program.source(operands[0], 32, line) if operands else program.source("0", 32, line)
    counted = len(operands) > 1 and not (parts[1] == "red" and len(operands) < 3)
    count = program.source(operands[1], 32, line) if counted else -1
    waits = parts[1] != "arrive"
    result = vector(i.operands[0]) if parts[1] == "red" else []
    places = [program.slot(r, line) for r in result if r in program.needed]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if guard[0] >= 0 and not active(part, guard, line):
            return None
        if part.mask != warp.live:
            return PARK
        name = one_address(part, number, 0, part.mask, line)
        threads = one_address(part, count, 0, part.mask, line) if count >= 0 else 0
        if name > MOST_NAMED:
            run.order.find(
                "named_barrier_out_of_range", line, f"barrier {name} of the block, outside 0 to {MOST_NAMED}"
            )
        if threads % LANES:
            message = f"barrier {name} of the block waits for {threads} threads, no multiple of {LANES}"
            run.order.find("named_barrier_out_of_range", line, message)
        for place in places:
            part.registers[place] = None
        return run.meet(name, warp, part, threads, line, waits=waits)

    return operation


def _barrier(program: Any, i: Instruction, at: int) -> Operation:
    parts, operands, line, guard = i.parts, i.operands, i.line, guard_of(program, i)
    what = parts[1]
    if what in {"init", "inval"}:
        place, offset = program.address(operands[0], line)
        count = program.source(operands[1], 32, line) if what == "init" else -1

        def start(run: Run, warp: Warp, part: Part) -> int | None:
            lanes = active(part, guard, line)
            if lanes:
                addresses = shared_places(part, place, offset, lanes, line)
                for address in [addresses] if isinstance(addresses, int) else addresses.tolist():
                    if what == "init":
                        number = one_address(part, count, 0, lanes, line)
                        run.barriers.start(warp.worker, lanes, address, number, line)
                    else:
                        run.barriers.stop(warp.worker, lanes, address, line)
            return None

        return start
    if what in {"try_wait", "test_wait"}:
        return _wait(program, i, at)
    if what in {"arrive", "arrive_drop", "expect_tx", "complete_tx"}:
        return _arrive(program, i)
    return refused(program, i)


def _arrive(program: Any, i: Instruction) -> Operation:
    parts, operands, line, guard = i.parts, i.operands, i.line, guard_of(program, i)
    what = parts[1]
    alone = what in {"expect_tx", "complete_tx"}
    if what == "arrive_drop" or "noComplete" in parts:
        return refused(program, i)
    if "relaxed" in parts and not alone:
        return refused(program, i, "a relaxed mbarrier.arrive")
    place, offset = program.address(operands[0 if alone else 1], line)
    expects = alone or "expect_tx" in parts
    rest = operands[1 if alone else 2 :]
    amount = program.source(rest[0], 32, line) if rest else -1
    state = operands[0] if not alone and operands[0] in program.needed else ""
    result = program.slot(state, line) if state else -1

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = part.mask if guard[0] < 0 else active(part, guard, line)
        if not lanes:
            return None
        addresses = shared_places(part, place, offset, lanes, line)
        number = one_address(part, amount, 0, lanes, line) if amount >= 0 else 1
        count = lanes.bit_count()
        listed = [(addresses, count)] if isinstance(addresses, int) else [(a, 1) for a in addresses.tolist()]
        if result >= 0:
            # The state that an arrival returns stands for the phase in which it arrived.
            phases = {one.phase if (one := run.barriers.live.get(a)) is not None else None for a, _ in listed}
            if len(phases) > 1:
                raise Undecided(line, "lanes get different states here")
            assign(part, result, phases.pop(), guard, line)
        # Lanes that arrive at several barriers do so at once.
        clocks = warp.worker.passed_on(lanes) if len(listed) > 1 else None
        for address, times in listed:
            run.barriers.reaches(run, warp, address, line, ARRIVAL)
            if what == "complete_tx":  # bytes that nothing brings count down as a load's do
                run.barriers.load(warp.worker, lanes, address, number * times, "", 1, line)
            elif alone:
                run.barriers.expect(warp.worker, lanes, address, number * times, line)
            elif expects:
                run.barriers.arrive(warp.worker, lanes, address, times, line, number * times, clocks)
            else:
                run.barriers.arrive(warp.worker, lanes, address, number * times, line, 0, clocks)
        return None

    return operation


def _wait(program: Any, i: Instruction, at: int) -> Operation:
    parts, operands, line, guard = i.parts, i.operands, i.line, guard_of(program, i)
    by_parity = "parity" in parts
    result = operands[0].split("|")[0].strip()
    place, offset = program.address(operands[1], line)
    parity = program.source(operands[2], 32 if by_parity else 64, line)
    target = program.slot(result, line)
    program.wait_slots[at] = (place, offset)
    # A state that nothing but arrivals write, and that is not known, is that of an arrival which was not made.
    of_arrivals = not by_parity and _only_arrivals_write(program, operands[2])

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = part.mask if guard[0] < 0 else active(part, guard, line)
        if not lanes:
            return None
        address = shared_place(part, place, offset, lanes, line)
        if of_arrivals and part.registers[parity] is None:
            run.order.find("arrivals_missing", line, "this wait takes the state of an arrival that is not made")
        wanted = part.registers[parity]
        wanted = wanted if type(wanted) is int else one_address(part, parity, 0, lanes, line)
        found = run.barriers.target(warp.worker, lanes, address, wanted, line, by_parity=by_parity)
        if found is None:
            raise Undecided(line, "a wait on no barrier")
        barrier, phase = found
        again = warp.failed_waits.get(at) == (barrier.agent, phase)
        # A first look may fail, as on hardware, even if the phase is over by now; who looks again waits. Any look may
        # just as well see what ends as long as others go on.
        fails = not again and (part.in_vain or run.backwards or part.looks < _failing(phase + warp.index))
        if barrier.phase > phase and not fails:
            part.in_vain, part.looks = False, 0
            run.barriers.passed(warp.worker, lanes, barrier, phase, line)
            assign(part, target, FULL, guard, line)
            return None
        if fails:
            part.in_vain, part.looks = False, part.looks + 1
            warp.failed_waits[at] = barrier.agent, phase
            assign(part, target, 0, guard, line)
            return None
        part.blocked = Wait(phase, barrier, looks=not again)
        return BLOCK

    return operation


def _failing(turn: int) -> int:
    """Return how many looks at different places fail one after the other: none every other time, or up to three."""
    half, odd = divmod(turn, 2)
    return 1 + half % 3 if odd else 0


def _only_arrivals_write(program: Any, register: str) -> bool:
    written = (one for one in program.kernel.instructions if register in results_of(one))
    return all(one.name.startswith("mbarrier.arrive") for one in written)


# Memory.


def in_shared(run: Run, reached: Place) -> bool:
    """Do generic addresses lie in shared memory?"""
    first = reached.addresses if isinstance(reached.addresses, int) else reached.addresses[0]
    return 0 <= int(first) < int(run.shared_bytes)


def check_inside(run: Run, reached: Place, line: int) -> bool:
    """Are addresses inside shared memory?"""
    if not reached.inside or reached.high > run.shared_bytes:
        run.note(line, "an address lies outside shared memory")
        return False
    return True


def _note_remote(run: Run, warp: Warp, reached: Place, agent: int, line: int, what: str) -> None:  # noqa: PLR0917
    """Note that threads reach other CTAs' shared memory, whose end must not come before."""
    if len(run.living) > 1 and not reached.low // SHARED_BYTES == (reached.high - 1) // SHARED_BYTES == warp.rank:
        for place in {reached.low, reached.high - 1} if isinstance(reached.addresses, int) else reached.addresses:
            run.reaches(warp, int(place), (agent, warp.worker.time), line, what)


def _store(program: Any, i: Instruction) -> Operation:
    line, guard, size = i.line, guard_of(program, i), width_of(i)
    if "async" in i.parts:
        return refused(program, i)
    place, offset = program.address(i.operands[0], line)
    names = vector(i.operands[1])
    each = size // len(names)
    wanted = all(n in program.needed or not n.startswith("%") for n in names)
    sources = [program.source(n, 8 * each, line) for n in names] if wanted else []
    generic = space_of(i) == ""
    places = Places(program.granule, offset, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if generic and part.registers[place] is None:
            run.order.blind = True
            return None
        reached = places.at(part.registers[place], lanes, size)
        if generic and not in_shared(run, reached):
            if program.edits_maps:
                run.maps.stored(warp.worker, lanes, known_lanes(part, place, offset, lanes, line), line)
            return None
        if not check_inside(run, reached, line):
            return None
        addresses = reached.addresses
        order, worker = run.order, warp.worker
        agent = order.actor(worker, lanes)
        values = [part.registers[s] for s in sources]
        ends = [((addresses + each * j, each), v) for j, v in enumerate(values) if v is not None]
        if not all(lanes_agree(end, v, lanes) for end, v in ends):
            order.find("stage_overwritten", line, "lanes of a warp store different values to one place")
        same = all(agrees(run.known, run.memory, end, v, lanes) for end, v in ends)
        order.write(order.shared, reached.cells, worker, agent, worker.time, "st", line, same)
        _note_remote(run, warp, reached, agent, line, "this store")
        if not sources or any(v is None for v in values):
            run.forget(reached.bytes)
            return None
        for j, value in enumerate(values):
            run.store_values(addresses + each * j, each, value, lanes)
        return None

    return operation


def make_load(program: Any, i: Instruction) -> Operation:
    """Return a load by threads: from shared memory, from parameters, or of something unknown."""
    line, guard, size = i.line, guard_of(program, i), width_of(i)
    space = space_of(i)
    names = vector(i.operands[0])
    places = [(j, program.slot(n, line)) for j, n in enumerate(names) if n in program.needed]
    each = size // len(names)
    if space == "param":
        return _parameter(program, i, places)
    pointer = program.roles.words.get(id(i))
    if pointer is not None and places and not (program.told and pointer in program.roles.tables.records):
        return _load_word(program, i, places, each)
    if space not in {"shared", ""}:
        return _load_of_global(program, i, places, each)
    place, offset = program.address(i.operands[1], line)
    reach = Places(program.granule, offset, line)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if space == "" and part.registers[place] is None:
            for _, to in places:
                assign(part, to, None, guard, line)
            return None
        reached = reach.at(part.registers[place], lanes, size)
        inside = not (space == "" and not in_shared(run, reached)) and check_inside(run, reached, line)
        if inside:
            order, worker = run.order, warp.worker
            agent = order.actor(worker, lanes)
            cells = reached.cells
            writers = order.read(order.shared, cells, worker, agent, worker.time, "ld", line)
            _note_remote(run, warp, reached, agent, line, "this load")
            accesses = order.accesses
            if lanes != worker.live:
                order.written.guarded.update(accesses[n].line for n in writers)
            if places:
                program.flows.update((accesses[n].line, line) for n in writers)
        for j, to in places:
            value: Value = None
            if inside:
                base = part.registers[place]
                at = base + offset if isinstance(base, int) else base.astype(np.int64) + offset
                value = run.load_value(place_of(at) + each * j, lanes, each)
            assign(part, to, value, guard, line)
        return None

    return operation


def _load_of_global(program: Any, i: Instruction, places: list[tuple[int, int]], each: int) -> Operation:
    """Return a load of what a run has been told, or of something unknown."""
    line, guard = i.line, guard_of(program, i)
    base, offset = program.address(i.operands[1], line) if program.told and space_of(i) == "global" else (-1, 0)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line) if base >= 0 and places else 0
        begin = part.registers[base] if lanes else None
        at = None if begin is None else begin + offset if isinstance(begin, int) else begin.astype(np.int64) + offset
        for j, to in places:
            value = None if at is None else run.told_value(at + each * j, lanes, each)
            assign(part, to, value, guard, line)
        return None

    return operation


def _load_word(program: Any, i: Instruction, places: list[tuple[int, int]], each: int) -> Operation:
    line, guard, pointer = i.line, guard_of(program, i), program.roles.words[id(i)]
    base, offset = program.address(i.operands[1], line)
    program.steering.update(program.roles.names[id(i)])

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        begin = part.registers[base]
        if isinstance(begin, np.ndarray):  # of lanes that are elsewhere nothing is known
            lanes = lanes_of(part.mask)
            begin = np.where(lanes, begin, begin[lanes][0]).astype(np.int64)
        address = None if begin is None else begin + offset
        for j, to in places:
            assign(part, to, data.word(program, run.parameters, pointer, address, j, each), guard, line)
        return None

    return operation


def _parameter(program: Any, i: Instruction, places: list[tuple[int, int]]) -> Operation:
    line, guard = i.line, guard_of(program, i)
    taken = [(*parameter_of(i, j), to) for j, to in places]
    program.steering.update(key for key, *_ in taken)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        for key, bits, to in taken:
            assign(part, to, program.parameter(run.parameters, key, bits), guard, line)
        return None

    return operation


def _atomic(program: Any, i: Instruction) -> Operation:
    """Atomics on shared memory: their order is not followed, so what they touch is left to them."""
    guard, line = guard_of(program, i), i.line
    names = vector(i.operands[0]) if i.base == "atom" else []
    places = [program.slot(n, line) for n in names if n in program.needed]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        for to in places:
            assign(part, to, None, guard, line)
        if lanes and space_of(i) == "shared":
            run.order.blind = True
            run.note(line, "atomics on shared memory are not followed")
        return None

    return operation
