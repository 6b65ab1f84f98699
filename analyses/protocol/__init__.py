"""Programs judged: the typestate check and the model check."""
