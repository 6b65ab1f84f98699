"""PTX read, and what its runs must keep."""
