"""Regions of extents that are legal."""
