"""Many problems at once: read, grouped by class, planned, written, reported."""
