"""How kernels for sm_90a are launched: sizes that their texts do not fix are small, and data random.

A kernel's own bytes are what its faults are compared with, so that sizes need not be those that its authors run, only
such that nothing lies outside a buffer.
"""

from __future__ import annotations

from dataclasses import replace

from bench.foreign_mutants.launches import Argument, Map, MapInMemory, Number, Pointer, Recipe, Structure

_NULL = Number(0, "Q")
_LARGE = 220 * 1024  # bytes of shared memory, beside a few that are not dynamic
_FLA = "flash-linear-attention, fla/ops: grids of the functions that call each kernel"


def _triton(types: str, length: int = 256) -> tuple[Argument, ...]:
    """Return arguments by their types: p for a buffer of its own, f for a float, i for the length of a sequence."""
    listed: dict[str, Argument] = {"f": Number(0.125, "f"), "i": Number(length)}
    buffers = tuple(listed[t] if t in listed else Pointer(f"p{n}") for n, t in enumerate(types))
    return (*buffers, _NULL, _NULL)  # no scratch memory


def _fla(name: str, types: str, *grids: tuple[int, ...]) -> Recipe:
    return Recipe(f"triton_fla/{name}.ptx#0", _triton(types), grids, _FLA, shared=160 * 1024)


def _fast(number: int, arguments: tuple[Argument, ...], shared: int, *grids: tuple[int, ...]) -> Recipe:
    return Recipe(f"fastcu/matmul_all.ptx#{number}", arguments, grids, "fast.cu, examples/matmul: runKernel", shared)


def _flat(buffer: str, rows: int, columns: int, box: int) -> Map:
    return Map(buffer, (columns, rows), (2 * columns,), (64, box))


def _folded(buffer: str, rows: int, columns: int, box: int) -> Map:
    return Map(buffer, (64, rows, columns // 64), (2 * columns, 128), (64, box, 1))


def _sizes(m: int, n: int, k: int) -> tuple[Argument, ...]:
    return Number(m), Number(n), Number(k)


def _kittens(size: int) -> tuple[Argument, ...]:
    """Return three square matrices as ThunderKittens' global layouts, and their size."""
    parts: dict[int, Argument] = {1152: Number(size)}
    for base, buffer in ((0, "a"), (384, "b"), (768, "c")):
        strides = (2 * size, 128, 2 * size * size, 2 * size * size)
        parts[base] = Pointer(buffer)
        parts[base + 16] = parts[base + 24] = Number(size, "Q")
        parts[base + 128] = Map(buffer, (64, size, size // 64, 1, 1), strides, (64, 64, 1, 1, 1))
    return (Structure(1280, parts),)


def _tilelang(name: str) -> Recipe:
    """Products of 16384 cubed; only some rows and columns are run."""
    k, n, m = 16384, 512, 256
    a = Map("a", (k, m), (2 * k,), (64, 128), "f16")
    b = Map("b", (n, k), (2 * n,), (64, 64), "f16")
    origin = "tilelang, examples/warp_specialize"
    return Recipe(f"tilelang/{name}.ptx#0", (a, b, Pointer("c")), ((4, 2), (1, 1)), origin, _LARGE)


def _heads(buffer: str) -> Map:
    """Return a map of 2 batches of 2 heads of 4096 rows of 128 halves."""
    row, head = 256, 4096 * 256
    return Map(buffer, (128, 4096, 2, 2), (row, head, 2 * head), (64, 128, 1, 1), "f16")


def _described(buffer: str, rows: int, columns: int) -> tuple[Argument, ...]:
    """Return what Triton passes of a tensor descriptor: its map, its sizes, its strides."""
    map_ = Map(buffer, (columns, rows), (2 * columns,), (64, 128), "f16")
    return map_, Number(rows), Number(columns), Number(columns, "Q"), Number(1, "Q")


_M, _N, _K = 2048, 2048, 320
_SAGE_HEADS, _SAGE_ROWS, _SAGE_WIDTH = 4, 512, 128
_SAGE_STRIDES = (_SAGE_HEADS * _SAGE_ROWS * _SAGE_WIDTH, _SAGE_ROWS * _SAGE_WIDTH, _SAGE_WIDTH)

RECIPES: tuple[Recipe, ...] = (
    _fla("chunk_bwd_kernel_dh_sm90_26d5a9", "ppppfi", (1, 1, 8)),
    _fla("chunk_bwd_kernel_dqkwg_sm90_e052a7", "pppppppppfi", (1, 4, 8)),
    _fla("chunk_bwd_kernel_dv_sm90_d73b11", "ppppppfi", (1, 4, 8)),
    _fla("chunk_fwd_kernel_h_sm90_9a224e", "ppppi", (1, 1, 8)),
    _fla("chunk_fwd_kernel_h_sm90_d44f55", "ppppi", (1, 1, 8)),
    _fla("chunk_fwd_kernel_o_sm90_7ab70a", "ppppppfi", (1, 4, 8)),
    _fla("chunk_gated_delta_rule_bwd_kernel_dhu_blockdim64_sm90_e8ea53", "ppppppppfi", (8,)),
    _fla("chunk_gated_delta_rule_fwd_kernel_h_blockdim64_sm90_fa4ecf", "pppppi", (8,)),
    _fla("chunk_gla_bwd_kernel_dv_sm90_dc536b", "ppppppi", (1, 4, 8)),
    _fla("chunk_gla_fwd_kernel_o_sm90_c899b3", "ppppppfi", (1, 4, 8)),
    _fla("chunk_kda_fwd_kernel_inter_solve_fused_sm90_b40064", "pppppppfi", (4, 8)),
    _fla("parallel_attn_bwd_kernel_dkv_sm90_269dc9", "ppppppppfi", (1, 4, 8)),
    _fla("recompute_w_u_fwd_kda_kernel_sm90_25c15c", "ppppppppi", (4, 8)),
    _fla("recompute_w_u_fwd_kernel_sm90_378f13", "ppppppi", (4, 8)),
    Recipe(
        "triton_misc/matmul_kernel_tma_persistent_sm90_f02219.ptx#0",
        (
            *_described("a", _M, _K),
            *_described("b", _N, _K),
            *_described("c", _M, _N),
            *_sizes(_M, _N, _K),
            _NULL,
            _NULL,
        ),
        ((132,), (40,)),
        "Triton's tutorial 09: matmul_tma_persistent",
        shared=_LARGE,
    ),
    Recipe(
        "triton_misc/_attn_fwd_sm90_eb8e7c.ptx#0",
        (
            *(Pointer(name) for name in ("q", "k", "v", "q_scale", "k_scale", "out", "lse")),
            *(Number(stride) for _ in range(4) for stride in _SAGE_STRIDES),
            *(Number(0) for _ in range(4)),
            Number(_SAGE_ROWS),
            Number(_SAGE_ROWS),
            _NULL,
            _NULL,
        ),
        ((_SAGE_ROWS // 128, _SAGE_HEADS, 2),),
        "SageAttention, sageattention/triton: attn_qk_int8_per_block",
        shared=160 * 1024,
    ),
    _fast(
        2,
        (
            *_sizes(256, 256, 512),
            Pointer("c"),
            MapInMemory(_flat("a", 256, 512, 64)),
            MapInMemory(_flat("b", 256, 512, 64)),
        ),
        0,
        (16,),
    ),
    *(
        _fast(
            number,
            (
                *_sizes(512, 512, 512),
                Pointer("c"),
                MapInMemory(_flat("a", 512, 512, 128)),
                MapInMemory(_flat("b", 512, 512, 128)),
                Pointer("debug"),
            ),
            0,
            (16,),
        )
        for number in (3, 4)
    ),
    _fast(
        5,
        (
            *_sizes(512, 512, 1024),
            Pointer("c"),
            MapInMemory(_flat("a", 512, 1024, 128)),
            MapInMemory(_flat("b", 512, 1024, 128)),
        ),
        5 * 2 * (128 + 128) * 64,
        (16,),
    ),
    _fast(
        6,
        (
            *_sizes(512, 1024, 1024),
            Pointer("c"),
            MapInMemory(_flat("a", 512, 1024, 128)),
            MapInMemory(_flat("b", 1024, 1024, 256)),
        ),
        3 * 2 * (128 + 256) * 64,
        (16,),
    ),
    _fast(
        7,
        (*_sizes(4096, 2048, 512), Pointer("c"), _flat("a", 4096, 512, 128), _flat("b", 2048, 512, 256)),
        3 * 2 * (128 + 256) * 64,
        (128,),
    ),
    *(
        _fast(
            number,
            (*_sizes(4096, 2048, 512), Pointer("c"), _folded("a", 4096, 512, 128), _folded("b", 2048, 512, 256)),
            shared,
            (128,),
        )
        for number, shared in ((8, 3 * 2 * (128 + 256) * 64), (9, _LARGE), (10, _LARGE))
    ),
    _fast(
        11,
        (
            *_sizes(4096, 2048, 512),
            replace(_folded("c", 2048, 4096, 256), box=(64, 256, 2), swizzle=0),
            _folded("a", 4096, 512, 128),
            _folded("b", 2048, 512, 256),
        ),
        _LARGE,
        (128,),
    ),
    _tilelang("ws_gemm_barrierpipe_stage2_0"),
    _tilelang("ws_gemm_copy_1_gemm_0_0"),
    _tilelang("ws_gemm_softpipe_stage2_0"),
    Recipe(
        "tilelang/mha_fwd_0.ptx#0",
        tuple(_heads(name) for name in ("k", "out", "q", "v")),
        ((8, 2, 2), (2, 1, 1)),
        "tilelang, examples/flash_attention/example_mha_fwd_bhsd.py",
        shared=_LARGE,
    ),
    Recipe(
        "thunderkittens/edu_h100_06.ptx#0",
        _kittens(512),
        ((8, 8),),
        "ThunderKittens, kernels/gemm/educational_h100/level_06.cu",
        shared=100_000,
        block=128,
    ),
    Recipe(
        "thunderkittens/edu_h100_08.ptx#0",
        _kittens(512),
        ((2, 4),),
        "ThunderKittens, kernels/gemm/educational_h100/level_08.cu",
        shared=200_000,
        block=384,
    ),
)
