"""The columns of a sweep's answers, and the verdicts. What reads answers needs no planner."""

from __future__ import annotations

LEGAL, REPAIRED, REFUSED, BAD = "legal", "repaired", "refused", "invalid"
FAILURES_FIRST = (BAD, REFUSED, REPAIRED, LEGAL)  # the order in which verdicts are shown
# Name and type of every column, in order; types are those of Arrow. Texts are never null; numbers are where there is
# none: a time that nobody predicted or measured, and everything of an invalid row but its line.
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
