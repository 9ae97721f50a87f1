"""Functions of arrays that users expect beside einsum, each derived from ops of the catalogue.

kron, block_diag                    products and sums of spaces
diagonal, trace                     with an offset, of any two axes
cumsum, cumprod, cummax, cummin     scans along an axis
logsumexp, softmax, log_softmax     sums of exponentials that do not overflow

Outside `einloom.trace` the ops run at once, inside they are recorded. Results are plain arrays, or torch
tensors where an operand is one.
"""

from .diagonals import diagonal, trace
from .exponentials import log_softmax, logsumexp, softmax
from .kronecker import block_diag, kron
from .scans import cummax, cummin, cumprod, cumsum

__all__ = [
    "block_diag",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "diagonal",
    "kron",
    "log_softmax",
    "logsumexp",
    "softmax",
    "trace",
]
