"""PTX: kernels written from their programs, descriptors included, so that no compiler decides for them."""
