"""Kernels of solved plans, and their programs."""
