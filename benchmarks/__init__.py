"""Benchmarks: `python -m benchmarks NAME ...` measures side by side and keeps the result as JSON."""
