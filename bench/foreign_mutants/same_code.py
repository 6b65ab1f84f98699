"""Which faults does an assembler not see? `python -m bench.foreign_mutants.same_code FOLDER` writes same_code.json.

Where ptxas makes the same machine code of a kernel with a fault as of the kernel without it, the fault does no harm:
a fence that ptxas gives itself, a wait that it moves to where it must be.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

from bench.foreign_mutants.draws import MOST, MOST_READ, drawn_for
from bench.foreign_mutants.readings import READ
from bench.foreign_mutants.texts import assembled, sources
from legalsat.backends.ptx.assemble import AssemblyFailed, assemble, tool_for

HERE = Path(__file__).parent
FOUND = HERE / "same_code.json"


def code(cubin: bytes) -> dict[str, bytes]:
    """Return the machine code of each kernel in a cubin, by the name of its section."""
    begin, size, count, names = struct.unpack_from("<Q", cubin, 0x28)[0], *struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, begin + n * size) for n in range(count)]
    strings = headers[names][4]
    found = {}
    for name, _, _, _, offset, length in headers:
        at = strings + name
        said = cubin[at : cubin.index(b"\0", at)].decode()
        if said.startswith(".text."):
            found[said] = cubin[offset : offset + length]
    return found


def main(arguments: list[str]) -> int:
    """Assemble all, and write what is the same."""
    device = json.loads((HERE / "device.json").read_text())["kernels"]
    found: dict[str, list[int]] = {}
    for source in sources(Path(arguments[0])):
        judged = device.get(source.name, {}).get("right") == "right"
        if not judged and source.name not in READ:
            continue
        text = assembled(source.text)
        right = code(assemble(text, source.target))
        found[source.name] = []
        for number, fault in enumerate(drawn_for(source.name, text, MOST if judged else MOST_READ)):
            try:
                same = code(assemble(fault.text, source.target)) == right
            except AssemblyFailed:
                same = False
            if same:
                found[source.name].append(number)
        print(source.name, found[source.name], flush=True)
    told = subprocess.run([tool_for("sm_100a"), "--version"], capture_output=True, text=True, check=True).stdout
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(found.items()))
    FOUND.write_text(
        f'{{\n "assembler": {json.dumps(told.split(", ")[-1].split()[0])},\n "faults": {{\n{rows}\n }}\n}}\n'
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
