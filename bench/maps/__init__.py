"""Tensor maps: rules beside the measured driver, and repairs beside all that there are."""
