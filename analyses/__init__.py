"""Facts about layouts and about what the hardware does with them."""
