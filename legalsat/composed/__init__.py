"""Programs of several operators, whose intermediates may lie as a plan likes, and their plans."""
