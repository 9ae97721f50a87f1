"""The compiled search core: integers and floats in flat arrays, no objects.

Every function here runs as it stands on lists, or compiled on arrays of NumPy (`compiled` in run.py);
both give the same tree. Sizes are logarithms to base 2 in fixed point (`UNIT` to the bit), so that sums
of them are exact and do not depend on their order.
"""
