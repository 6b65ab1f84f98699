"""PTX and machine code: what checks of them say of our own, of other compilers and of planted faults."""
