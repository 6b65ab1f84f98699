"""PTX: kernels written from a plan's own numbers, descriptors included, so that no compiler decides for them."""

from legalsat.backends.ptx.blocks.adapter import KernelLaunch, emit_ptx, launch_of

__all__ = ["KernelLaunch", "emit_ptx", "launch_of"]
