"""Programs, PTX and plans checked."""
