"""LegalSAT."""
