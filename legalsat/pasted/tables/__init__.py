"""What lines and sentences of programs mean, as tables: one row a sentence or a cause."""
