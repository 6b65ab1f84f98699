"""How often banks of shared memory serve an access."""
