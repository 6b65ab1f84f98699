"""What a GPU does, whatever runs on it: latencies, rates, banks, vectors, matrix instructions."""
