"""Steps that run where LegalSAT is, where nvcc is, and where the GPU is; each call on a GPU in a process of its own."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Steps:
    """What `prepare`, `compile`, `run` and `call` do.

    Attributes:
        usage: what is printed of other words.
        prepare: writes the folder, of so many cases and a seed.
        compile_all: compiles it with so many workers; returns what is wrong, by name.
        run: calls everything in it; returns the exit status.
        call: calls one case, in a process of its own.
        workers: how many there are when left out.
        seed: the one when left out.
        count: the number of cases when left out; without it the number must be given.
    """

    usage: str
    prepare: Callable[[Path, int, int], None]
    compile_all: Callable[[Path, int], dict[str, str]]
    run: Callable[[Path, int], int]
    call: Callable[[Path, str], None]
    workers: int
    seed: int = 19
    count: int | None = None

    def main(self, arguments: list[str]) -> int:
        """Run the step that the arguments name, and return the exit status."""
        match arguments:
            case ["prepare", folder, *numbers] if len(numbers) <= 2 and (numbers or self.count is not None):
                count = int(numbers[0]) if numbers else self.count or 0
                self.prepare(Path(folder), count, int(numbers[1]) if len(numbers) > 1 else self.seed)
                return 0
            case ["compile", folder, *workers]:
                refused = self.compile_all(Path(folder), int(workers[0]) if workers else self.workers)
                print(json.dumps(refused, indent=1))
                return 1 if refused else 0
            case ["run", folder, *workers]:
                return self.run(Path(folder), int(workers[0]) if workers else self.workers)
            case ["call", folder, name]:
                self.call(Path(folder), name)
                return 0
            case _:
                print(self.usage, file=sys.stderr)
                return os.EX_USAGE


def answer_of(module: str, folder: Path, name: str, key: str, seconds: int) -> tuple[Any, str]:
    """Call a case in a process of its own; return what its last line of JSON has under a key, and why there is none.

    Processes are forked from one that has imported torch, which takes seconds, and has not touched the GPU.
    """
    with tempfile.TemporaryDirectory() as place:
        said = Path(place, "said")
        process = _FORKED.Process(target=_called, args=(module, str(folder.resolve()), name, str(said)))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            return None, f"no answer within {seconds} s"
        text = said.read_text(errors="replace") if said.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith(f'{{"{key}"')]
    return (json.loads(lines[-1])[key], "") if lines else (None, f"process died: {text[-600:]}")


def _called(module: str, folder: str, name: str, said: str) -> None:
    """Call a case, and write what it prints; exit at once, whatever state the GPU is in."""
    with Path(said).open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            importlib.import_module(module).call(Path(folder), name)
        except BaseException:  # it goes into the report
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["torch", "numpy"])
