"""A machine that runs PTX."""
