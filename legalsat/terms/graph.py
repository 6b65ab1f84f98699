"""What every e-graph here needs of egglog: declared once, filled, saturated in steps, read as nodes, emptied."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

from egglog import bindings

from legalsat.errors import LegalSatError

MOST_GRAPHS = 16
# egglog tells its logger of every rule; only where nobody has said what is wanted of it.
if logging.getLogger("egglog").level == logging.NOTSET:
    logging.getLogger("egglog").setLevel(logging.WARNING)

Nodes: TypeAlias = Mapping[str, tuple[str, list[str], str]]  # name -> function, arguments, class


class Forked(LegalSatError, RuntimeError):
    """A process was forked from one that had planned; the message says how to start it instead."""


class _Threads:
    """Whether this process lost the threads that egglog starts as it is imported: a fork takes none of them along."""

    lost = False

    @classmethod
    def forked(cls) -> None:
        """Take note of a fork, in the child, which would wait for them for ever."""
        cls.lost = True

    @classmethod
    def require(cls) -> None:
        """Raise `Forked` unless they are here."""
        if cls.lost:
            raise Forked(
                "this process was forked from one that had planned already, whose e-graph's threads it lacks; start it "
                'by multiprocessing.get_context("spawn") or "forkserver", or fork before the first plan'
            )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Threads.forked)


class _Declared(threading.local):
    """Graphs that know sorts and rules. Terms are pushed onto them and popped, since declaring takes longest.

    egglog binds a graph to the thread that made it, so each thread has its own.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, Any] = {}

    def graph(self, declarations: str) -> Any:
        if declarations not in self._graphs:
            if len(self._graphs) >= MOST_GRAPHS:
                self._graphs.clear()
            graph = bindings.EGraph()
            graph.run_program(*graph.parse_program(declarations))
            self._graphs[declarations] = graph
        return self._graphs[declarations]


_DECLARED = _Declared()


class Saturated:
    """An e-graph with sorts and a ruleset `laws`; use as a context manager, one at a time.

    Args:
        declarations: sorts, constructors and rules in egglog's language.

    Raises:
        Forked: the process was forked from one that had made such graphs.
    """

    def __init__(self, declarations: str) -> None:
        _Threads.require()
        self._graph = _DECLARED.graph(declarations)

    def __enter__(self) -> Self:
        self.run("(push)")
        return self

    def __exit__(self, *_: object) -> None:
        self.run("(pop)")

    def run(self, text: str) -> Any:
        """Run commands in egglog's language; return what they say."""
        return self._graph.run_program(*self._graph.parse_program(text))

    def holds(self, fact: str) -> bool:
        """Whether a fact is in the graph."""
        try:
            self.run(f"(check {fact})")
        except bindings.EggSmolError:
            return False
        return True

    def step(self) -> bool:
        """Apply every law once, everywhere; return whether anything is new."""
        return bool(self.run("(run-schedule (run laws))")[-1].report.updated)

    def nodes(self) -> Nodes:
        """Return every node."""
        nodes = json.loads(self._graph.serialize([]).to_json())["nodes"]
        return {name: (n["op"], n["children"], n["eclass"]) for name, n in nodes.items()}

    @property
    def size(self) -> int:
        """Number of nodes, numbers among them not counted."""
        sizes = self.run("(print-size)")[-1]
        return sum(count for _, count in sizes.sizes)
