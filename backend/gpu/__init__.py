"""The GPU backend: CuPy's arrays, and kernels of our own."""
