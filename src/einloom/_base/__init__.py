"""The ground floor: errors, options, caches, numbers, log and progress; standard library and NumPy only."""
