"""Matrix units on the machine: what wgmma and tcgen05 read, when they are done, and tensor memory."""
