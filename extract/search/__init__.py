"""The e-graph, extraction, and plans of movements."""
