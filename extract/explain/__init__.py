"""Why something is refused, and what would help."""
