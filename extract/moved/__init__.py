"""Movements: the tiles of a plan, and whether a printed kernel moves them as its program says."""
