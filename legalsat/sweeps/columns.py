"""The columns of a sweep's answers, and the verdicts. What reads answers needs no planner."""

from __future__ import annotations

LEGAL, REPAIRED, REFUSED, BAD = "legal", "repaired", "refused", "error"
# Name and type of every column, in order; types are those of Arrow.
COLUMNS = (
    ("line", "int64"),
    ("name", "string"),
    ("operator", "string"),
    ("problem", "string"),
    ("dtype", "string"),
    ("count", "int64"),
    ("verdict", "string"),
    ("codes", "string"),
    ("operands", "string"),
    ("reason", "string"),
    ("repair", "string"),
    ("bytes_added", "int64"),
    ("kernel", "string"),
    ("predicted_ns", "double"),
    ("repaired_ns", "double"),
    ("bound_ns", "double"),
    ("measured_ns", "double"),
    ("flops", "double"),
    ("bytes", "double"),
    ("fields", "string"),
    ("error", "string"),
)
