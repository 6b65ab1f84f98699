"""Measurements: one script a question, run as `python -m bench.NAME` from a checkout."""
