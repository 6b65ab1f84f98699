"""Plans in, source text out."""
