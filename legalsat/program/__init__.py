"""Programs of kernels: roles, rings, operations, and their text."""
