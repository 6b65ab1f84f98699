"""`python -m legalsat` is the command line."""

import sys

from legalsat.cli import main

if __name__ == "__main__":
    sys.exit(main())
