"""PTX of products on GPUs without wgmma: a tile of C a block, by tcgen05."""
