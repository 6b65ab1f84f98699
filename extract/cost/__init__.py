"""What plans are predicted to take."""
