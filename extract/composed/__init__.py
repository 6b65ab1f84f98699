"""Programs of several operators: their terms, the places where values may lie, and the cheapest of all."""
