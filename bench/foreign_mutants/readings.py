"""Which faults harm that no GPU has judged, or whose harm the GPU did not show: by reading, with the reason.

`CLASSES` says it of a kind, where the reason holds for every kernel that is read; `OWN` of one fault of a kernel.
True: it breaks the kernel in some launch or some order of its threads. False: it does not. None: documents ask for what
is missing and released compilers leave it out (`rules/lenient.py`), or ptxas puts it where it must be, or nobody knows.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from bench.foreign_mutants.faults import RING

Reading = tuple[bool | None, str]

_V1, _V3, _V5 = "learncuda/mm_v1.ptx", "learncuda/mm_v3.ptx", "learncuda/mm_v5.ptx"
_KITTENS_6, _KITTENS_8 = "thunderkittens/edu_b200_06.ptx#0", "thunderkittens/edu_b200_08.ptx#0"
_SOFTWARE, _TUTORIAL = "cutedsl/b_swpipe_0.ptx#0", "cutedsl/b_tut1_0.ptx#0"
_BY_MAPS = "triton_misc/matmul_kernel_tma_sm100_df6203.ptx#0"
_BY_POINTERS = "triton_misc/matmul_kernel_sm100_b13de5.ptx#0"
READ = (
    f"{_V1}#0", f"{_V1}#1", f"{_V3}#0", f"{_V5}#0", f"{_V5}#1", _KITTENS_6, _KITTENS_8, _SOFTWARE, _TUTORIAL, _BY_MAPS,
    _BY_POINTERS,
)  # fmt: skip

_HUNG = "somebody waits for this phase, which never ends"
_RACE = "nothing else orders accesses of different warps before and after it: a race, which timing may hide"
_LAST_STORE = "the block's last store: shared memory is not written again (PIPE032)"
_LATER = "another barrier of the block stands between the same accesses"
_END = "only the kernel's end follows"
_JOINS = "its copies join the next group, and each read of them waits for that group too"
_EMPTY = "the group that is left open holds nothing: its copies are all guarded away in the last turns"

CLASSES: dict[str, Reading] = {
    "init dropped": (True, "the barrier is used, and its word is what was left in shared memory"),
    "one arrival more awaited": (True, _HUNG),
    "wait dropped": (True, "what the phase protects is used before, or written while it is read"),
    "parity flipped": (True, "the wait is over before its phase, or waits for one that does not come"),
    "arrive dropped": (True, _HUNG),
    "expect dropped": (True, _HUNG),
    "16 bytes more expected": (True, _HUNG),
    "16 bytes fewer expected": (True, "the phase ends before its bytes are there, or its count runs below zero"),
    "commit dropped: tcgen05": (True, _HUNG),
    "barrier dropped: cluster": (True, "barriers of other CTAs are used before those have started them: a race"),
    "barrier dropped: block": (True, _RACE),
    "mask changed": (True, "a CTA of the cluster waits for what is not sent to it, another gets too much"),
    "remote target changed": (True, "the CTA that waits gets no arrival"),
    "one stage fewer": (True, "one role goes round its ring earlier than the other: they wait for each other's stages"),
    "one stage more": (True, "one role goes past the ring's barriers"),
    "commit dropped: cp.async": (True, "the wait that follows covers one group less than it should: a race"),
    "wait_group dropped: cp.async": (True, "what the copies bring is read, or written again, while they run: a race"),
    "wait_group for one fewer: cp.async": (True, "what the copies bring is read while they may still run: a race"),
    "wait dropped: tcgen05.st": (True, "a multiplication may read tensor memory before what was put there"),
    "wait dropped: tcgen05.ld": (None, "the registers are tracked like those of any load (PIPE030)"),
    "wait_group dropped: bulk": (None, _LAST_STORE),
    "wait_group for one fewer: bulk": (None, _LAST_STORE),
    "commit dropped: bulk": (None, _LAST_STORE),
    "fence dropped: init": (None, "released compilers let a barrier of the block follow the init, no more (PIPE027)"),
    "fence dropped: proxy": (None, "it stands for barriers' inits alone, or for copies by threads (PIPE027, PIPE034)"),
    "fence dropped: tcgen05 before": (None, "Triton 3.6 to 3.9 gives none (PIPE035)"),
    "fence dropped: tcgen05 after": (None, "Triton 3.6 to 3.9 gives none (PIPE035)"),
    # ptxas moves and adds what it must around wgmma; what it made here ran right 20 times.
    "fence dropped: wgmma": (None, "undefined by document; ptxas orders what touches the sums"),
    "commit dropped: wgmma": (None, "undefined by document; ptxas closes the group at the wait"),
    "wait_group dropped: wgmma": (None, "undefined by document; ptxas waits where the sums are used"),
    "wait_group for one fewer: wgmma": (None, "undefined by document; ptxas waits where the sums are used"),
}

_ONE_WARP: Reading = (None, "one warp: its lanes stay together, and use shared memory in their order")
_FLA = "triton_fla"
OWN: dict[str, dict[int, Reading]] = {
    f"{_V5}#0": {7: (False, "the last commit of the last turn: nobody waits for that stage again")},
    _KITTENS_6: {1: (False, "the barrier at line 120 follows, before any use of what was initialised")},
    _BY_MAPS: {2: (False, "one tile a block: the barrier is waited for once, at line 146, before this")},
    _TUTORIAL: {
        2: (False, "the first wait for this barrier, by parity 1, is over at once, and one tile is all"),
        7: (False, "in the remainder of a loop unrolled by two, to which no launch comes: at least one load is ahead"),
    },
    f"{_FLA}/chunk_bwd_kernel_dh_sm90_26d5a9.ptx#0": {
        **dict.fromkeys((0, 6), (False, _JOINS)), **dict.fromkeys((4, 5, 7), _ONE_WARP),
        **dict.fromkeys((9, 10, 11), (False, _END)),
    },
    f"{_FLA}/chunk_fwd_kernel_h_sm90_9a224e.ptx#0": {
        **dict.fromkeys((0, 7), (False, _JOINS)), **dict.fromkeys((2, 5, 6), _ONE_WARP),
        **dict.fromkeys((9, 10, 11), (False, _END)),
    },
    f"{_FLA}/chunk_fwd_kernel_h_sm90_d44f55.ptx#0": {
        **dict.fromkeys((0, 7), (False, _JOINS)), **dict.fromkeys((2, 5, 6), _ONE_WARP),
        **dict.fromkeys((9, 10, 11), (False, _END)),
    },
    f"{_FLA}/chunk_kda_fwd_kernel_inter_solve_fused_sm90_b40064.ptx#0": dict.fromkeys(range(16), _ONE_WARP),
    f"{_FLA}/chunk_bwd_kernel_dqkwg_sm90_e052a7.ptx#0": {
        **dict.fromkeys((0, 1, 2, 5, 6), (False, _JOINS)), 10: (False, _LATER),
    },
    f"{_FLA}/chunk_bwd_kernel_dv_sm90_d73b11.ptx#0": {
        **dict.fromkeys((0, 1, 6, 7), (False, _JOINS)), 10: (False, _EMPTY), 11: (False, _LATER),
    },
    f"{_FLA}/chunk_gated_delta_rule_bwd_kernel_dhu_blockdim64_sm90_e8ea53.ptx#0": {
        **dict.fromkeys((0, 10, 11, 12, 13), (False, _JOINS)), **dict.fromkeys((14, 15), (False, _END)),
    },
    f"{_FLA}/chunk_gated_delta_rule_fwd_kernel_h_blockdim64_sm90_fa4ecf.ptx#0": {
        **dict.fromkeys((0, 1, 2, 11), (False, _JOINS)), **dict.fromkeys((13, 14, 15), (False, _END)),
    },
    f"{_FLA}/chunk_gla_bwd_kernel_dv_sm90_dc536b.ptx#0": {
        **dict.fromkeys((2, 3, 8, 9), (False, _JOINS)), 12: (False, _EMPTY),
    },
    f"{_FLA}/chunk_gla_fwd_kernel_o_sm90_c899b3.ptx#0": {
        4: (False, "each of the two warps stores rows that it alone has read before"),
    },
    f"{_FLA}/parallel_attn_bwd_kernel_dkv_sm90_269dc9.ptx#0": {
        **dict.fromkeys((0, 1), (False, "the loop over the block's own keys is run once: its index stays 0")),
        8: (False, _JOINS), **dict.fromkeys((6, 15), (False, _EMPTY)),
    },
    f"{_FLA}/recompute_w_u_fwd_kda_kernel_sm90_25c15c.ptx#0": {
        6: (False, _JOINS), **dict.fromkeys((14, 15), (False, _EMPTY)),
    },
    f"{_FLA}/recompute_w_u_fwd_kernel_sm90_378f13.ptx#0": dict.fromkeys((7, 8, 14, 15), (False, _EMPTY)),
    "fastcu/matmul_all.ptx#4": {
        11: (False, "all threads have waited for both barriers, and wgmma's wait lets no warp of the group go ahead"),
    },
    "triton_misc/matmul_kernel_tma_persistent_sm90_f02219.ptx#0": {
        4: (False, "the inits and the next arrival are of one warp; the barrier at line 269 stands before the rest"),
    },
    "tilelang/ws_gemm_copy_1_gemm_0_0.ptx#0": {7: (False, "phases alone order what its two roles do in this loop")},
    "tilelang/ws_gemm_barrierpipe_stage2_0.ptx#0": {3: (False, _LATER)},
    "tilelang/mha_fwd_0.ptx#0": {3: (False, "the barrier at line 124 follows the inits; the rest waits for phases")},
}  # fmt: skip

_SEEN = {"wrong", "hang", "fault"}
# Of these a launch that comes there shows the harm; others are races, which timing hides.
_SHOWN = {
    "init dropped", "one arrival more awaited", "parity flipped", "arrive dropped", "expect dropped", "wait dropped",
    "16 bytes more expected", "16 bytes fewer expected", "mask changed", "remote target changed", *RING,
}  # fmt: skip


@cache
def _same_code() -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads((Path(__file__).parent / "same_code.json").read_text())["faults"]
    return found


def harm(name: str, fault: dict[str, Any]) -> Reading:
    """Return whether a fault of a kernel harms, and why."""
    if fault["outcome"] in _SEEN:
        return True, f"{fault['outcome']} on the H200"
    number = fault["number"]
    if number in _same_code().get(name, []):
        return None, "ptxas makes the same machine code"
    if number in OWN.get(name, {}):
        return OWN[name][number]
    if fault["outcome"] == "equal" and fault["kind"] in _SHOWN:
        return None, "what it breaks was not seen in 20 runs of one launch, which may not come there, and was not read"
    return CLASSES[fault["kind"]]
