"""Machine code read."""
