"""What hardware units take: tensor maps, matrix descriptors, wgmma, tcgen05, tensor memory, and sites."""
