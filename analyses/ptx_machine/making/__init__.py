"""Makes the operations that a program is run by."""
