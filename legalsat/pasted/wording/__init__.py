"""What the words of a report make likely: which causes, and whether the report is about a failed kernel at all."""
