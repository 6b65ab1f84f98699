"""Faults planted into other people's kernels, and what the PTX check and a GPU say of each."""
