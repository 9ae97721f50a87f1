"""Linear algebra over batches of matrices."""

from .gauges import canonical_svd
from .randomized import randomized_svd
from .truncated import truncated_svd

__all__ = [
    "canonical_svd",
    "randomized_svd",
    "truncated_svd",
]
