"""Prints the host's part of an emitted product of blocks: checks of torch tensors, descriptors, the launch."""

from __future__ import annotations

from legalsat.backends.triton.block import ProductKernel, ProductOperand
from legalsat.backends.triton.product_run import CHECK, TORCH


def run_functions(kernel: ProductKernel) -> str:
    """Return the text of `run` and what it calls."""
    a, b, c = kernel.a, kernel.b, kernel.c
    pitch_bytes = 16 if c.map else c.vector * c.size
    store = "_described(c, 1, C_BLOCK, C_LAYOUT)" if c.map else "c"
    more, pitch = "", ""
    if c.map is None:
        name = "n" if c.fast == 1 else "m"
        slow = 1 - c.fast
        more = f"    pitch = c.stride({slow}) // VECTOR.value if c.shape[{slow}] > 1 else {name} // VECTOR.value\n"
        if c.vector > 1:
            more = (
                f"    if {name} % VECTOR.value:\n"
                f'        raise ValueError(f"{name} is {{{name}}}; this kernel stores {{VECTOR.value}} elements at '
                'once")\n' + more
            )
        pitch = ", pitch"
    shape, turned = ("(m, n)", "") if c.fast == 1 else ("(n, m)", ".t()")
    made = f"torch.empty({shape}, dtype=torch.{TORCH[c.type]}, device=a.device){turned}"
    return f'''\
{CHECK}

def run(a, b, c=None):
    """Return C = A B^T on the current stream: a of shape (m, k), b of shape (n, k), c of (m, n), new if not given.

    C must not overlap A or B. A ValueError says what does not fit this kernel.
    """
    import torch

    (m, k), n = a.shape, b.shape[0]
    if c is None:
        c = {made}
    _check("a", a, torch.{TORCH[a.type]}, {_fast(a)}, 16)
    _check("b", b, torch.{TORCH[b.type]}, {_fast(b)}, 16)
    _check("c", c, torch.{TORCH[c.type]}, {c.fast}, {pitch_bytes})
    if b.shape[1] != k or c.shape != (m, n):
        raise ValueError(f"a is {{tuple(a.shape)}}, b {{tuple(b.shape)}}, c {{tuple(c.shape)}}; give m k, n k and m n")
    if not a.device == b.device == c.device:
        raise ValueError(f"a is on {{a.device}}, b on {{b.device}}, c on {{c.device}}; use one device")
    gpu = torch.cuda.get_device_properties(a.device)
    if (gpu.major, gpu.minor) != (9, 0):
        raise ValueError(f"{{a.device}} is not of compute capability 9.0, the only one with wgmma")
{more}    tiles = -(-m // TILE_M.value) * -(-n // TILE_N.value)
    programs = min(tiles, BLOCKS * gpu.multi_processor_count)
    left, right = _described(a, {_fast(a)}, A_BLOCK, A_LAYOUT), _described(b, {_fast(b)}, B_BLOCK, B_LAYOUT)
    with torch.cuda.device(a.device):
        product[(programs,)](left, right, {store}, m, n, k{pitch}, num_warps=WARPS)
    return c
'''


def _fast(operand: ProductOperand) -> int:
    return 1 if operand.major == "K" else 0
