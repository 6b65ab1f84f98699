"""Code in a pasted text, read without running it."""
