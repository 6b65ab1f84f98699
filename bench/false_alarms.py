"""What is said to be wrong in kernels that are right: false alarms of the readers of pasted code.

python -m bench.false_alarms FOLDER               # every source file in a folder, each with what is told of it
python -m bench.false_alarms FOLDER --target b200 # as kernels of another GPU
python -m bench.false_alarms FOLDER --says "the kernel hangs"

Each file is taken to be right, as those of a library that tests them mostly are, and is pasted behind words that say
that something fails, without which the readers say nothing. What they find then is an alarm, false unless the file is
wrong after all: the place in the text that each names tells which. Files that speak of none of what the readers know
(barriers, bulk copies, matrix units, blocks of threads) are left out, as are those of more characters than anybody
pastes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.breaks import READERS
from legalsat.pasted.grammar import plain
from legalsat.targets import Target, target

SUFFIXES = frozenset({".cu", ".cuh", ".h", ".hpp", ".hip", ".py", ".rs", ".inl"})
MOST_CHARACTERS = 100_000
SAYS = "wrong results"
_SPEAKS = re.compile(
    r"mbarrier|cp[._]async|wgmma|tcgen05|TensorMap|elect_one|__syncthreads|__shfl|__launch_bounds__|cute\.arch"
)


def sources(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the source files under a folder that speak of kernels, each with its text, in the order of their names."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            if len(text) <= MOST_CHARACTERS and _SPEAKS.search(text):
                yield path, text


def alarms(text: str, gpu: Target, says: str = SAYS) -> Iterator[tuple[str, Diagnostic]]:
    """Yield each reader's name with what it finds in code that is said to fail."""
    pasted = plain(f"{says}\n\n{text}")
    for name, reader in READERS.items():
        for found in reader(pasted, gpu):
            yield name, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is told of each file, and how often each reader speaks; return 2 where there is nothing to read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="sources that are right")
    parser.add_argument("--target", default="h200", help="the GPU that they are for (h200)")
    parser.add_argument("--says", default=SAYS, help=f"what is said to fail ({SAYS})")
    options = parser.parse_args(arguments)
    gpu, counted, files = target(options.target), Counter[str](), 0
    for path, text in sources(options.folder):
        files += 1
        for name, found in alarms(text, gpu, options.says):
            counted[name] += 1
            print(f"{path.relative_to(options.folder)}: {name}: {found.code} {found.message} ({found.where})")
    if not files:
        print(f"no source under {options.folder} speaks of kernels", file=sys.stderr)
        return 2
    told = ", ".join(f"{name} {counted[name]}" for name in READERS)
    print(f"{files} files, {counted.total()} findings: {told}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
