"""Terms, and e-graphs of them: movements, with laws about lists of modes, and products, with laws about trees."""
