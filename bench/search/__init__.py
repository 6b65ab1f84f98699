"""The search: plans beside everything that there is, and what laws and the e-graph are worth."""
