"""A newcomer's path, from a clone to kernels beside torch: does each step work with what it installs, and nothing else?

    python -m bench.newcomer [FOLDER]   # or `make newcomer`; in a temporary folder when left out

Clones the last commit, runs `make demo` in it, installs its wheel into an environment elsewhere, with an empty HOME and
no checkout in sight; explains, emits, checks, and compiles what was emitted: the `.cu` by the line that stands in it,
where nvcc is, the Triton module for sm_90. Where a GPU and torch are, both run beside torch, without LegalSAT. Exit
status 1 at the first step that fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.gpu.files import command_of, python_of

ROOT = Path(__file__).parents[1]
SECONDS = 1800  # for a step; the longest installs what it needs
LINES, COLUMNS = 30, 100  # of the demo
PRODUCT = ["synthesize", "gemm", "--m", "512", "--n", "512", "--k", "511", "--dtype", "bf16", "--target", "h200"]
LIBRARY = """
import legalsat as ls
plan = ls.synthesize(ls.Gemm(m=512, n=512, k=511, dtype="bf16"), "h200", backend="triton")
print(ls.__file__)
print(ls.explain(ls.Tensor((4096, 4095), "bf16"), "h200", tile=(128, 64)).diagnostics[0].code)
for backend in ("cute", "triton", "ptx", "host"):
    print(backend, len(plan.emit(backend).splitlines()))
"""
TRITON = """
import legalsat as ls
from legalsat.backends import program
from legalsat.backends.triton.product_program import image_of
plan = ls.synthesize(ls.Gemm(m=512, n=512, k=511, dtype="bf16"), "h200", backend="triton")
made = program(plan, "triton")
print(made.architecture, len(image_of(made).code), "bytes")
"""
BESIDE = """
import sys, torch
a, b = (torch.randint(-2, 3, (512, 511), device="cuda").bfloat16() for _ in "ab")
c = torch.empty(512, 512, dtype=torch.bfloat16, device="cuda")
exec(open(sys.argv[1]).read())
torch.cuda.synchronize()
assert torch.equal(c, (a.double() @ b.double().T).to(c.dtype)) and "legalsat" not in sys.modules
print("every element right, on", torch.cuda.get_device_name())
"""


class Failed(Exception):
    """A step did not do what it should; the message says which, and what it said."""


def step(what: str, words: list[str], folder: Path, env: dict[str, str], *, code: int = 0) -> str:
    """Run a command, and return what it prints; report it in a line."""
    begin = time.monotonic()
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != code:
        said = (done.stdout + done.stderr)[-2000:]
        raise Failed(f"{what}: exit status {done.returncode}, where {code} is right\n{' '.join(words)[:200]}\n{said}")
    print(f"{what}: {time.monotonic() - begin:.1f} s", flush=True)
    return done.stdout


def bare(home: Path) -> dict[str, str]:
    """Return an environment in which nothing of a checkout or of a user is to be found."""
    home.mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEGALSAT", "XDG_"))}
    return {**{name: value for name, value in kept.items() if name != "VIRTUAL_ENV"}, "HOME": str(home)}


def built(tree: Path, python: str, folder: Path, env: dict[str, str]) -> Path:
    """Return the wheel of a checkout."""
    made = folder / "wheel"
    step("build the wheel", [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(tree)], folder, env)
    (wheel,) = made.glob("legalsat-*.whl")
    return wheel


def used(python: Path, folder: Path, env: dict[str, str]) -> None:
    """Explain, emit, check, and compile what was emitted, with what `python` has installed."""
    tool = [str(python), "-m", "legalsat"]
    said = step("import, explain, synthesize, emit", [str(python), "-c", LIBRARY], folder, env)
    home, refused, *_ = said.splitlines()
    if refused != "TMA005" or not Path(home).is_relative_to(python.parents[1]):
        raise Failed(f"the library says {said}")
    shape = ["--shape", "4096x4095", "--dtype", "bf16", "--tile", "128x64", "--target", "h200"]
    if "TMA005" not in step("explain", [*tool, "explain", *shape], folder, env, code=1):
        raise Failed("explain does not name the rule")
    (folder / "notes.txt").write_text("no PTX\n")
    step("check what is no PTX", [*tool, "check", "notes.txt"], folder, env, code=2)
    for backend, file in (("cute", "product.cu"), ("triton", "product.py")):
        step(f"emit {backend}", [*tool, *PRODUCT, "--emit", backend, "--output", file], folder, env)
    compiled = by_nvcc(python, folder, env)
    has_triton = subprocess.run([str(python), "-c", "import triton"], env=env, capture_output=True, check=False)
    if has_triton.returncode:
        print("no Triton here: its module is not compiled")
    else:
        print(" ", step("compile the Triton module", [str(python), "-c", TRITON], folder, env).strip())
    beside_torch(folder, compiled)


def by_nvcc(python: Path, folder: Path, env: dict[str, str]) -> bool:
    """Compile the `.cu` by the line that stands in it; return False where nvcc or CuTe's headers are not."""
    where = "from legalsat.backends.cute.compile import *; print(nvcc(), headers(), sep='\\n')"
    found = subprocess.run([str(python), "-c", where], cwd=folder, env=env, capture_output=True, text=True, check=False)
    if found.returncode:
        print("no nvcc or no CuTe here: the .cu is not compiled")
        return False
    nvcc, headers = map(Path, found.stdout.splitlines())
    env = {**env, "PATH": f"{nvcc.parent}:{env['PATH']}", "CUTLASS_PATH": str(headers.parent)}
    line = command_of((folder / "product.cu").read_text())
    step("compile the .cu by its line", ["bash", "-c", line], folder, env)
    return True


def beside_torch(folder: Path, compiled: bool) -> None:
    """Run what was emitted beside torch, with this interpreter and without LegalSAT, where it has torch and a GPU."""
    has = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    env = bare(folder / "home_of_torch")
    if subprocess.run([sys.executable, "-c", has], env=env, capture_output=True, check=False).returncode:
        print("no GPU or no torch here: nothing is run")
        return
    calls = {"triton": "import sys; sys.path.insert(0, '.')\nimport product\nproduct.run(a, b, c)\n"}
    if compiled:
        calls["cute"] = python_of((folder / "product.cu").read_text())
    for backend, call in calls.items():
        (folder / f"call_{backend}.txt").write_text(call)
        words = [sys.executable, "-c", BESIDE, f"call_{backend}.txt"]
        print(" ", step(f"run {backend} beside torch", words, folder, env).strip())


def demo(clone: Path, env: dict[str, str]) -> None:
    """Run `make demo` in a clone, and see that what it prints is a page."""
    shown = step("make demo", ["make", "-s", "demo"], clone, env).splitlines()
    if len(shown) > LINES or max(map(len, shown)) > COLUMNS:
        raise Failed(f"the demo prints {len(shown)} lines, the widest of {max(map(len, shown))} columns")


def walk(folder: Path) -> None:
    """Go the whole path in a folder."""
    env = bare(folder / "home")
    clone, elsewhere = folder / "clone", folder / "elsewhere"
    step("clone", ["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), str(clone)], folder, env)
    demo(clone, env)
    wheel = built(clone, str(clone / ".venv/bin/python"), folder, env)
    shutil.rmtree(clone)
    step("make an environment elsewhere", [sys.executable, "-m", "venv", str(elsewhere)], folder, env)
    python = elsewhere / "bin/python"
    wanted = f"{wheel}[triton,cute]"
    step("install the wheel", [str(python), "-m", "pip", "install", "-q", wanted], folder, env)
    (folder / "work").mkdir()
    used(python, folder / "work", env)


def main(arguments: list[str]) -> int:
    """Go the path in the folder that is named, which must not be there yet, or in a temporary one."""
    try:
        if arguments:
            Path(arguments[0]).mkdir(parents=True)
            walk(Path(arguments[0]).resolve())
        else:
            with tempfile.TemporaryDirectory() as folder:
                walk(Path(folder))
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
