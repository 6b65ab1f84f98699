"""Triton kernels for the corpus of `bench.triton_corpus`: products, attention and reductions as people write them."""

# Triton passes constants in capitals, and its kernels take many parameters.
# ruff: noqa: N803, PLR0917
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def product_by_pointers(
    a, b, c, m, n, k, stride_a, stride_b, stride_c,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K)
    at_a = a + (row % m)[:, None] * stride_a + depth[None, :]
    at_b = b + depth[:, None] * stride_b + (column % n)[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for i in tl.range(0, tl.cdiv(k, TILE_K), num_stages=STAGES):
        left = tl.load(at_a, mask=depth[None, :] < k - i * TILE_K, other=0.0)
        right = tl.load(at_b, mask=depth[:, None] < k - i * TILE_K, other=0.0)
        total = tl.dot(left, right, total)
        at_a += TILE_K
        at_b += TILE_K * stride_b
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(c + row[:, None] * stride_c + column[None, :], total.to(OUT), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def product_by_descriptors(
    a, b, c, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0) * TILE_M, tl.program_id(1) * TILE_N
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for i in tl.range(0, tl.cdiv(k, TILE_K), num_stages=STAGES, warp_specialize=SPECIALIZED):
        left = a.load([row, i * TILE_K])
        right = b.load([column, i * TILE_K])
        total = tl.dot(left, right.T, total)
    c.store([row, column], total.to(OUT))


@triton.jit  # type: ignore[untyped-decorator]
def product_persistent(
    a, b, c, m, n, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
    SPECIALIZED: tl.constexpr, FLAT: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    across, down = tl.cdiv(n, TILE_N), tl.cdiv(m, TILE_M)
    for tile in tl.range(
        tl.program_id(0), across * down, tl.num_programs(0), flatten=FLAT, warp_specialize=SPECIALIZED
    ):
        row, column = tile // across * TILE_M, tile % across * TILE_N
        total = tl.zeros((TILE_M, TILE_N), tl.float32)
        for i in tl.range(0, tl.cdiv(k, TILE_K), num_stages=STAGES):
            left = a.load([row, i * TILE_K])
            right = b.load([column, i * TILE_K])
            total = tl.dot(left, right.T, total)
        if HALVES:
            parts = tl.permute(tl.reshape(total, (TILE_M, 2, TILE_N // 2)), (0, 2, 1))
            first, second = tl.split(parts)
            c.store([row, column], first.to(OUT))
            c.store([row, column + TILE_N // 2], second.to(OUT))
        else:
            c.store([row, column], total.to(OUT))


@triton.jit  # type: ignore[untyped-decorator]
def product_with_maps_made_here(
    a, b, c, m, n, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    left_map = tl.make_tensor_descriptor(a, [m, k], [k, 1], [TILE_M, TILE_K])
    right_map = tl.make_tensor_descriptor(b, [n, k], [k, 1], [TILE_N, TILE_K])
    out_map = tl.make_tensor_descriptor(c, [m, n], [n, 1], [TILE_M, TILE_N])
    row, column = tl.program_id(0) * TILE_M, tl.program_id(1) * TILE_N
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for i in tl.range(0, tl.cdiv(k, TILE_K), num_stages=STAGES):
        total = tl.dot(left_map.load([row, i * TILE_K]), right_map.load([column, i * TILE_K]).T, total)
    out_map.store([row, column], total.to(OUT))


@triton.jit  # type: ignore[untyped-decorator]
def attention_by_descriptors(
    q, k, v, o, length, scale,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * length + tl.program_id(0) * ROWS
    asked = q.load([row, 0])
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in tl.range(0, length, KEYS, num_stages=STAGES, warp_specialize=SPECIALIZED):
        score = tl.dot(asked, k.load([tl.program_id(1) * length + start, 0]).T) * scale
        higher = tl.maximum(largest, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(largest - higher)
        weight = weight * shrink + tl.sum(share, 1)
        total = tl.dot(share.to(OUT), v.load([tl.program_id(1) * length + start, 0]), total * shrink[:, None])
        largest = higher
    o.store([row, 0], (total / weight[:, None]).to(OUT))


@triton.jit  # type: ignore[untyped-decorator]
def attention_by_pointers(
    q, k, v, o, length, scale,
    ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, STAGES: tl.constexpr, OUT: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    row, key, lane = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, WIDTH)
    asked = tl.load(q + row[:, None] * WIDTH + lane[None, :])
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    end = (tl.program_id(0) + 1) * ROWS if CAUSAL else length
    for start in tl.range(0, end, KEYS, num_stages=STAGES):
        keys = tl.load(k + (start + key)[None, :] * WIDTH + lane[:, None])
        score = tl.dot(asked, keys) * scale
        if CAUSAL:
            score = tl.where(row[:, None] >= (start + key)[None, :], score, float("-inf"))
        higher = tl.maximum(largest, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(largest - higher)
        weight = weight * shrink + tl.sum(share, 1)
        values = tl.load(v + (start + key)[:, None] * WIDTH + lane[None, :])
        total = tl.dot(share.to(OUT), values, total * shrink[:, None])
        largest = higher
    tl.store(o + row[:, None] * WIDTH + lane[None, :], (total / weight[:, None]).to(OUT))


@triton.jit  # type: ignore[untyped-decorator]
def transpose_by_descriptors(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    target.store([column, row], source.load([row, column]).T)


@triton.jit  # type: ignore[untyped-decorator]
def softmax_of_rows(source, target, rows, columns, WIDTH: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, WIDTH)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        held = tl.load(source + row * columns + at, mask=at < columns, other=-float("inf"))
        power = tl.exp(held - tl.max(held, 0))
        tl.store(target + row * columns + at, power / tl.sum(power, 0), mask=at < columns)


@triton.jit  # type: ignore[untyped-decorator]
def product_of_split_depth(
    a, b, c, m, n, k,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, STAGES: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.program_id(2) * TILE_K + tl.arange(0, TILE_K)
    at_a = a + row[:, None] * k + depth[None, :]
    at_b = b + depth[:, None] * n + column[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for _ in tl.range(0, tl.cdiv(k, TILE_K * PARTS), num_stages=STAGES):
        total = tl.dot(tl.load(at_a), tl.load(at_b), total)
        at_a += TILE_K * PARTS
        at_b += TILE_K * PARTS * n
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.atomic_add(c + row[:, None] * n + column[None, :], total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def layer_norm_of_rows(source, target, weight, columns, WIDTH: tl.constexpr):
    at, row = tl.arange(0, WIDTH), tl.program_id(0)
    held = tl.load(source + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    centred = tl.where(at < columns, held - tl.sum(held, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + 1e-5)
    tl.store(target + row * columns + at, centred * scale * tl.load(weight + at, mask=at < columns), mask=at < columns)
