"""Linear algebra over batches of matrices."""

from .batches import eigh_batch, solve_batch, svd_batch
from .eigen_variants import eig_two_sided, eigh_generalized, eigh_subset
from .forms import polar, schur
from .functions_of_matrices import expm, sqrtm
from .gauges import canonical_svd, canonical_vectors, positive_qr
from .qr_variants import qr_pivoted, qr_positive, qr_rank_revealing
from .randomized import randomized_svd
from .truncated import truncated_svd

__all__ = [
    "canonical_svd",
    "canonical_vectors",
    "eig_two_sided",
    "eigh_batch",
    "eigh_generalized",
    "eigh_subset",
    "expm",
    "polar",
    "positive_qr",
    "qr_pivoted",
    "qr_positive",
    "qr_rank_revealing",
    "randomized_svd",
    "schur",
    "solve_batch",
    "sqrtm",
    "svd_batch",
    "truncated_svd",
]
