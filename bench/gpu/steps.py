"""Steps that run where LegalSAT is, where nvcc is, and where the GPU is; each call on a GPU in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    """Call a case in a process of its own; return what its last line of JSON has under a key, and why there is none."""
    command = [sys.executable, "-m", module, "call", str(folder.resolve()), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {seconds} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(f'{{"{key}"')]
    return (json.loads(lines[-1])[key], "") if lines else (None, f"process died: {done.stderr[-600:]}")
