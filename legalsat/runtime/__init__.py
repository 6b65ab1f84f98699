"""Plans that run: programs, their images on disk, the driver, and kernels that take arrays."""

from legalsat.runtime.cache import Cache
from legalsat.runtime.driver import Driver, DriverError, NoDriver
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.open_kernel import OpenKernel
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import Image, Program
from legalsat.runtime.program_kernel import ProgramKernel

__all__ = [
    "Cache",
    "Driver",
    "DriverError",
    "Image",
    "Kernel",
    "NoDriver",
    "OpenKernel",
    "OpenProgram",
    "Program",
    "ProgramKernel",
]
