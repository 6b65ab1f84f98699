"""Sets and functions, by isl."""
