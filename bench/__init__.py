"""Measurements: one script a question, run as `python -m bench[.FOLDER].NAME` from a checkout."""
