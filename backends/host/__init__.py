"""Host code: standalone C++ and Python that encode a plan's tensor maps through the CUDA driver."""

from legalsat.backends.host.cpp import emit_cpp, encode_cpp, encode_cpp_in_place_of
from legalsat.backends.host.python import emit_python, encode_python

__all__ = ["emit_cpp", "emit_python", "encode_cpp", "encode_cpp_in_place_of", "encode_python"]
