"""Kernels for numba: loops over flat buffers, strides and offset tables; no imports of ours."""
