"""CUDA C++ and launch geometry from plans: text and numbers only, nothing here needs a GPU or CuPy."""
