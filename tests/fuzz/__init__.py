"""A fuzzing harness: every public name, reader and verb, called with good, nearly good and hostile arguments.

    python -m tests.fuzz --calls 1000000          the whole run, on two processes
    python -m tests.fuzz --replay explain:0:1234  one call again, by family, seed and number

A call may return, or raise a `LegalSatError`; a `TypeError` only where Python itself raises it for the arguments' count
or names. It takes less than 10 seconds and 2 GB. Where brute force is cheap, what it returns is checked too.
"""
