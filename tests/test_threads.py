"""Planning from several threads at once gives what one thread gives, though the solvers are not safe for threads."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from concurrent.futures import ThreadPoolExecutor
import legalsat as ls

def plan(i):
    found = ls.synthesize(ls.Transpose(ls.Tensor((256 + 16 * i, 512), "bf16")), "h200")
    dim = ls.Dim("K", multiple_of=8 * (i + 1))
    return str(found.to_json()), ls.synthesize(ls.Tensor((64, dim), "bf16"), "h200", tile=(64, 64)).guard

with ThreadPoolExecutor(8) as pool:
    together = list(pool.map(plan, range(12)))
from legalsat.extract.search import planner
planner.cached_plan.cache_clear()  # so that they are planned afresh
assert together == [plan(i) for i in range(12)]
print("same")
"""


def test_threads_plan_what_one_thread_plans() -> None:
    # A process of its own: what this guards against ends the whole process.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "same"), done.stderr
