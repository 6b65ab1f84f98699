"""Check the barriers and asynchronous copies of PTX, as a CI job does: python check_ptx_in_ci.py kernel.ptx ..."""

import sys
from pathlib import Path

import legalsat as ls


def main(files: list[str]) -> int:
    """Return 1 if the contract is broken somewhere; without files, check a kernel that was just planned."""
    planned = ls.synthesize(ls.Gemm(512, 512, 512, "bf16"), "b200")
    texts = {file: Path(file).read_text() for file in files} or {"planned": planned.emit("ptx")}
    broken = 0
    for name, text in texts.items():
        found = ls.check_pipeline(text, "b200")
        print(f"{name}: {'proven' if found.proven else 'not proven'}, {len(found.diagnostics)} breaks")
        broken += len(found.diagnostics)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
