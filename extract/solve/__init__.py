"""Fields solved by tables and by Z3."""
