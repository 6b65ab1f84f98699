"""Candidates, their cost, and the solving of their fields."""
