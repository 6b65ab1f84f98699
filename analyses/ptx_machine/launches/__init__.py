"""What a launch decides: its conditions, the numbers that it finds in memory, and which launches are alike."""
