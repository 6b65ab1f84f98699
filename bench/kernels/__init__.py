"""Programs of kernels: what is planned is what runs, and faults planted in them are told."""
