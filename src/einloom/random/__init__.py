"""Random numbers that depend on a key and on their place alone: explicit keys, no state.

key(seed)                        two words; split(key, n) and fold_in(key, i) make others
uniform, normal, integers, bits  arrays of any shape; the same on any number of threads, on every backend
permutation(key, x)              of range(x), or of an array along an axis
einloom.trace(lambda k: ...)     draws become instructions of one program
"""

from .draws import bits, integers, normal, uniform
from .family import register as _register
from .keys import fold_in, key, split
from .shuffle import permutation

__all__ = ["bits", "fold_in", "integers", "key", "normal", "permutation", "split", "uniform"]

_register()
