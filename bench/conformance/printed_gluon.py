"""A printed kernel in Gluon on the PTX machine: what Triton makes of its operations, told as its program has them.

Triton allocates shared memory, starts roles, and lets one thread act for all warps of a role behind a meeting of them.
What so differs from the program is listed in `ALLOWED`; what remains is compared as any other text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bench.conformance.kernel_conformance import conformance
from bench.conformance.kernel_launches import Launch
from bench.conformance.printed_kernel import PrintedKernel, Recorded
from legalsat.analyses.ptx_machine.alu import FULL
from legalsat.analyses.ptx_machine.events import Event
from legalsat.extract.kernels.kernel_memory import RESULT, FoundMemory
from legalsat.extract.kernels.kernel_steps import NUMBERS
from legalsat.extract.kernels.product_maps import Placed, maps_of
from legalsat.plans.product_kernel import WARPGROUP, WARPS
from legalsat.program.pipeline import Pipeline

# What a Gluon text may do that its program does not say, and the reason.
ALLOWED = {
    "places": "rings lie where the first thing that is done to them shows, their stages side by side, and no two "
    "of them on each other: Triton allocates shared memory",
    "hand-over": "warps of the first consumer set up, and hand the others their roles through memory of no buffer: all "
    "warps meet before and behind that, and again when roles have ended",
    "registers": "they change on the way to a role; the last number counts, and the first consumer may get more, since "
    "Triton gives it what is left",
    "meetings": "warps of a role meet as often as Triton likes, which makes lanes meet too",
    "one for all": "directly behind such a meeting one thread arrives as often as all warps would, and stores "
    "their boxes",
    "groups": "every box is a group of its own, so that as many are pending as the program's groups have boxes",
    "set-up": "barriers are released by a fence of proxies, which orders more than one of their initialisation",
    "one warp": "the producer is one warp, all of whose lanes wait, and of which one lane acts; other warps of its "
    "warpgroup do nothing",
}
HAND_OVER = 1  # the barrier at which Triton starts and ends roles
_BY_LANE = 1


class PrintedGluon(PrintedKernel):
    """The PTX of a kernel, made ready to run: as Triton makes it of what backend triton prints."""

    traced = False

    def maps(self) -> dict[str, Placed]:
        """Return the tensor maps by the names of parameters; extents and pitches of each stand behind it."""
        found = [one for maps in maps_of(self.gemm, self.kernel).values() for one in maps]
        return {self._names[number * _DESCRIPTOR]: one for number, one in enumerate(found)}

    def numbers(self, launch: Launch) -> dict[str, int]:
        """Return the parameters of a launch that are numbers, by their names; unused ones are 0."""
        found = dict.fromkeys((name for name in self._names if name not in self.maps()), 0)
        *sizes, _, _, result, pitch, _, _ = launch.numbers
        by_boxes = self.kernel.store == "tma"
        begin = _DESCRIPTOR * len(self.maps())
        values = sizes if by_boxes else [result, *sizes, pitch]
        return found | dict(zip(self._names[begin:], values, strict=False))

    def differences(self, recorded: Recorded, program: Pipeline | None = None) -> list[str]:
        """Return in words where what was recorded is not what the kernel's program, or another one, says."""
        program, streams = program or self.program, recorded.streams
        memory = FoundMemory(program, self.kernel, self.along_rows, self._starts(program, streams))
        if memory.overlap:
            return [memory.overlap]
        told = _Told(self.kernel.registers, self.kernel.warpgroups, self.kernel.store)
        try:
            found = told.streams(streams)
        except _Beyond as error:
            return [str(error)]
        return conformance(program, recorded.launch.values, self.kernel, found, memory=memory, base=self._base)

    def _starts(self, program: Pipeline, streams: Mapping[int, Sequence[Event]]) -> dict[str, int]:
        """Return where rings begin: what is started, loaded, stored or written first is the first of its ring."""
        names = dict(zip(self.maps(), "ABC", strict=False))
        found: dict[str, int] = {}
        started = [event.spans[0][0] for stream in streams.values() for event in stream if event.what == "start"]
        for ring in program.barriers:
            if started:
                found[ring.name], started = started[0], started[ring.stages :]
        for warp, stream in streams.items():
            group = warp // WARPS
            result = RESULT if self.kernel.store == "sums" else f"{RESULT}{group}"
            for event in stream:
                if event.what in {"load", "store"}:
                    found.setdefault(names[event.name] if event.what == "load" else result, event.spans[0][0])
            written = [at for event in _body(stream)[1] if event.what == "write" for at, _ in event.spans]
            if self.kernel.store != "tma" and group < self.kernel.warpgroups and written:
                found[result] = min(*written, found.get(result, written[0]))
        return {name: at - self._base for name, at in found.items()}


_DESCRIPTOR = 5  # parameters of one: a map, two extents, two pitches


class _Beyond(Exception):
    """A text does something that stands for nothing in its program."""


def _hands(event: Event) -> bool:
    return event.what == "meet" and event.numbers == (HAND_OVER, 0)


def _body(stream: Sequence[Event]) -> tuple[Sequence[Event], Sequence[Event], Sequence[Event]]:
    """Return what a warp does before its role, in its role, and behind it."""
    meetings = [at for at, event in enumerate(stream) if _hands(event)]
    first, last = ([*meetings, *[len(stream)] * 3])[1:3]  # who waits for ever does not end
    return stream[:first], stream[first + 1 : last], stream[last:]


class _Told:
    """Events of warps as the program would have them.

    Args:
        registers: that consumers and the producer ask for. consumers: how many. store: how C leaves.
    """

    def __init__(self, registers: tuple[int, int], consumers: int, store: str) -> None:
        self.registers, self.consumers, self.store = registers, consumers, store

    def streams(self, streams: Mapping[int, Sequence[Event]]) -> dict[int, list[Event]]:
        """Return the events of each warp of a CTA.

        Raises:
            _Beyond: some stand for nothing in the program.
        """
        found: dict[int, list[Event]] = {}
        for group in range(self.consumers + 1):
            warps = [group * WARPS + number for number in range(WARPS)]
            own = [streams.get(warp, ()) for warp in warps]
            if group == self.consumers:  # who loads is its first warp
                own.sort(key=lambda stream: not any(event.what == "load" for event in stream))
            parts = [_body(stream) for stream in own]
            heads = [list(self._head(before, group, number)) for number, (before, _, _) in enumerate(parts)]
            for _, _, behind in parts:
                _require_idle(behind)
            bodies = [list(body) for _, body, _ in parts]
            if group == self.consumers:
                alone = [_by_one(event) for event in bodies[0] if event.what != "lanes"]
                bodies = [alone, *bodies[1:]]
            else:
                bodies = self._of_role(bodies, f"consumer {group}")
            found |= {warp: [*head, *body] for warp, head, body in zip(warps, heads, bodies, strict=True)}
        return found

    def _head(self, before: Sequence[Event], group: int, number: int) -> Iterator[Event]:
        """Yield what a warp does before its role: the first one sets up, all meet, and all have registers."""
        meeting = next((event for event in before if _hands(event)), None)
        changes = [event for event in before if event.what == "registers"]
        if meeting is None or not changes:
            raise _Beyond(f"warp {number} of group {group} gets no role and no registers of its own")
        for event in before[: before.index(meeting)] if not group else ():
            if event.what == "fence" and event.name == "proxy.async":
                if not number:
                    yield replace(event, name="mbarrier_init", lanes=_BY_LANE)
            elif event.what == "meet" and event.numbers != (0, WARPGROUP):
                raise _Beyond(f"line {event.line}: warps meet before they have their roles")
            elif event.what not in {"meet", "registers", "write", "read"}:
                yield event
        for event in before:
            if event.what not in {"registers", "write", "read", "meet", "start", "fence", "lanes"}:
                raise _Beyond(f"line {event.line}: {event.what} before roles begin")
        yield replace(meeting, numbers=(0, 0))
        producer, last = group == self.consumers, changes[-1]
        wanted = self.registers[producer]
        count = last.numbers[0]
        enough = wanted if not group and count >= wanted else count
        yield replace(last, numbers=(enough,), name="dec" if producer else "inc")

    def _of_role(self, bodies: list[list[Event]], name: str) -> list[list[Event]]:
        """Return the bodies of a role's warps, with what one thread does for all done by each."""
        rounds = [_rounds(body) for body in bodies]
        if len({len(one) for one in rounds}) > 1:
            raise _Beyond(f"{name}: its warps do not meet equally often")
        told: list[list[Event]] = [[] for _ in bodies]
        for number, together in enumerate(zip(*rounds, strict=True)):
            self._round(number, list(together), told, name)
        return told

    def _round(self, number: int, together: list[list[Event]], told: list[list[Event]], name: str) -> None:
        """Tell what warps do between two meetings, of which the second is the last event."""
        shared = [_led(events) for events in together]
        acts = [event for events, count in zip(together, shared, strict=True) for event in events[:count]]
        arrivals = [event for event in acts if event.what == "arrive"]
        stores = [event for event in acts if event.what == "store"]
        if (arrivals or stores) and not number:
            raise _Beyond(f"{name}, line {acts[0].line}: one thread acts for all before they have met")
        each = list(zip(together, shared, strict=True))
        commits = [sum(map(_stores_group, events[:count])) for events, count in each]
        if commits != [len(stores)] * WARPS or len(stores) % WARPS:
            raise _Beyond(f"{name}, line {acts[0].line}: {len(stores)} boxes are stored in {commits} groups")
        if len({sum(map(_waits_group, events)) for events in together}) > 1:
            raise _Beyond(
                f"{name}, line {together[0][-1].line}: not all warps wait for what is stored before they meet"
            )
        for warp, (events, count) in enumerate(each):
            for event in arrivals:
                if event.numbers[0] % WARPS:
                    raise _Beyond(
                        f"{name}, line {event.line}: {event.numbers[0]} arrivals are not as many of each warp"
                    )
                told[warp].append(replace(event, numbers=(event.numbers[0] // WARPS,)))
            for event in stores[warp::WARPS]:
                told[warp] += [event, replace(event, what="commit", spans=(), numbers=(), name="bulk")]
            told[warp] += self._rest(events[count:], name)

    def _rest(self, events: Sequence[Event], name: str) -> Iterator[Event]:
        for at, event in enumerate(events):
            if event.what in {"arrive", "store"} or _stores_group(event):
                raise _Beyond(f"{name}, line {event.line}: {event.what} is not directly behind a meeting of the role")
            if _waits_group(event):
                pending, rest = divmod(event.numbers[0], WARPS)
                if rest:
                    raise _Beyond(f"{name}, line {event.line}: {event.numbers[0]} groups are not as many of each warp")
                yield replace(event, numbers=(pending,), lanes=_BY_LANE)
            elif event.what == "meet" and event.name == "sync" and event.numbers[1] == WARPGROUP:
                if self.store == "sums" and at and events[at - 1].what == "write":
                    yield replace(event, numbers=(NUMBERS["consumers"], WARPGROUP))
                yield _met(event)
            else:
                yield event


def _met(event: Event) -> Event:
    return replace(event, what="lanes", numbers=(), name="")


def _by_one(event: Event) -> Event:
    return replace(event, lanes=_BY_LANE) if event.what == "wait" and event.lanes == FULL else event


def _rounds(body: Sequence[Event]) -> list[list[Event]]:
    """Return what a warp does between meetings of its role, each ended by one."""
    found: list[list[Event]] = [[]]
    for event in body:
        found[-1].append(event)
        if event.what == "meet":
            found.append([])
    return found


def _led(events: Sequence[Event]) -> int:
    """Return how many of the first events are of one thread for its role, or the groups of what it stores."""
    alone = {"arrive", "store", "lanes"}
    return next((at for at, one in enumerate(events) if one.what not in alone and not _stores_group(one)), len(events))


def _stores_group(event: Event) -> bool:
    return event.what == "commit" and event.name == "bulk"


def _waits_group(event: Event) -> bool:
    return event.what == "wait group" and event.name.startswith("bulk")


def _require_idle(behind: Sequence[Event]) -> None:
    for event in behind:
        if event.what not in {"registers", "write", "read", "meet", "lanes"}:
            raise _Beyond(f"line {event.line}: {event.what} behind the role")
