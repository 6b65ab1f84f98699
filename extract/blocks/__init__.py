"""Products on GPUs without wgmma, which are planned operand by operand, a block at a time."""
