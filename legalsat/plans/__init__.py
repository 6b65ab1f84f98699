"""Plans: what was chosen for a movement or a product, with every field solved."""
