"""Prints the host's part of an emitted product: checks of torch tensors, descriptors, the launch."""

from __future__ import annotations

from legalsat.extract.kernels.product_maps import result_lies
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel

TORCH = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "i8": "int8",
    "i32": "int32",
}

CHECK = '''\
def _check(name, tensor, dtype, fast, pitch_bytes):
    """Raise ValueError unless `tensor` is a matrix that this kernel was written for."""
    if tensor.ndim != 2 or not tensor.numel():
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; give a matrix with elements")
    if not tensor.is_cuda:
        raise ValueError(f"{name} is on {tensor.device}; move it to a CUDA device")
    if tensor.dtype != dtype:
        raise ValueError(f"{name} has elements of {tensor.dtype}; this kernel takes {dtype}")
    slow, size = 1 - fast, tensor.element_size()
    if tensor.shape[fast] > 1 and tensor.stride(fast) != 1:
        raise ValueError(f"{name} has strides {tensor.stride()}; axis {fast} must be the one with stride 1")
    if tensor.shape[slow] > 1 and (tensor.stride(slow) * size) % pitch_bytes:
        raise ValueError(f"{name} has strides {tensor.stride()}; its pitch must be a multiple of {pitch_bytes} bytes")
    if extra := tensor.data_ptr() % pitch_bytes:
        raise ValueError(f"{name} starts {extra} bytes past a multiple of {pitch_bytes}; align it")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"{name} is a lazy conjugate or negative; resolve it first")


def _described(tensor, fast, block, layout):
    """Return the descriptor of a matrix, `fast` the axis whose elements lie side by side."""
    seen = tensor if fast == 1 else tensor.t()
    size = tensor.element_size()
    # A single row's pitch means nothing, and torch may give it any.
    pitch = seen.stride(0) if seen.shape[0] > 1 else -(-seen.shape[1] * size // 16) * 16 // size
    return TensorDescriptor(seen, list(seen.shape), [pitch, 1], block, layout)
'''


def run_functions(gemm: Gemm, kernel: ProductKernel) -> str:
    """Return the text of `run` and what it calls."""
    swapped, by_boxes = kernel.swapped, kernel.store == "tma"
    fast = [1 if major == "K" else 0 for major in kernel.majors]
    along_rows = result_lies(gemm, kernel)[0]  # of what the kernel computes, which may be C^T
    c_fast = int(along_rows == swapped)
    out, made = TORCH[gemm.out_dtype.name], ("(m, n)", "") if c_fast else ("(n, m)", ".t()")
    scales = ", scale_a, scale_b" * bool(gemm.scaled)
    names = ("b", "a") if swapped else ("a", "b")
    sides = dict(zip(names, fast, strict=True))
    described = [
        f"_described({name}, {one}, {side}_BLOCK, {side}_LAYOUT)"
        for name, one, side in zip(names, fast, "AB", strict=True)
    ]
    result = f"_described(c, {c_fast}, C_BLOCK, C_LAYOUT)" if by_boxes else "c"
    pitch = f"    pitch = c.stride({1 - c_fast}) if c.shape[{1 - c_fast}] > 1 else c.shape[{c_fast}]\n" * (not by_boxes)
    passed = ", pitch" * (not by_boxes)
    programs = "tiles" if kernel.store == "sums" else "min(tiles, CTAS * gpu.multi_processor_count)"
    checks = [f'_check("{name}", {name}, torch.{TORCH[gemm.dtype.name]}, {sides[name]}, 16)' for name in ("a", "b")]
    checks.append(f'_check("c", c, torch.{out}, {c_fast}, {16 if by_boxes else gemm.out_dtype.bytes})')
    least = kernel.least_k_tiles - 1
    few = (
        f"    if k <= {least} * TILE_K.value:\n"
        f'        raise ValueError(f"k is {{k}}; this kernel takes more than {least} tiles of {{TILE_K.value}}")\n'
    )
    told = " Scales are tensors of one fp32 element." if scales else ""
    m, n = ("n", "m") if swapped else ("m", "n")
    return f'''\
{CHECK}

def run(a, b{scales}, c=None):
    """Return C = A B^T on the current stream: a of shape (m, k), b of shape (n, k), c of (m, n), new if not given.

    C must not overlap A or B.{told} A ValueError says what does not fit this kernel.
    """
    import torch

    (m, k), n = a.shape, b.shape[0]
    if c is None:
        c = torch.empty({made[0]}, dtype=torch.{out}, device=a.device){made[1]}
    {checks[0]}
    {checks[1]}
    {checks[2]}
    if b.shape[1] != k or c.shape != (m, n):
        raise ValueError(f"a is {{tuple(a.shape)}}, b {{tuple(b.shape)}}, c {{tuple(c.shape)}}; give m k, n k and m n")
    if not a.device == b.device == c.device:
        raise ValueError(f"a is on {{a.device}}, b on {{b.device}}, c on {{c.device}}; use one device")
    gpu = torch.cuda.get_device_properties(a.device)
    if (gpu.major, gpu.minor) != (9, 0):
        raise ValueError(f"{{a.device}} is not of compute capability 9.0, the only one with wgmma")
{few * (least > 0)}    tiles_m, tiles_n = -(-{m} // TILE_M.value), -(-{n} // TILE_N.value)
    tiles = tiles_m * tiles_n
    programs = {programs}
    left = {described[0]}
    right = {described[1]}
    result = {result}
{pitch}    with torch.cuda.device(a.device):
        product[(programs,)](left, right, result, {m}, {n}, k, tiles_m, tiles_n, GROUP{passed}{scales}, num_warps=WARPS)
    return c
'''
