"""CUDA C++ with CuTe's headers: persistent kernels of products on wgmma, and relayouts."""
