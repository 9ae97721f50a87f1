"""Linear algebra over batches of matrices: numpy.linalg's functions, and what they leave out.

Matrices lie in the last two axes, any number of batch axes before them; results are new arrays. Dtypes
are float32, float64, complex64 and complex128; integers are computed in float64. Subclasses of ndarray
and tensors of torch come back as such.

A batch may fail in part: `on_error` says what happens.

- "raise": `LinAlgError`, a `numpy.linalg.LinAlgError`, with `.info`, the code of every matrix, and
  `.failed`, the batch indices of those that failed.
- "nan": NaN in the place of the failed members (-1 in integers); the others are right.
- "info": the same, and the codes are returned: `(result, info)`. info is int32 of the batch shape, 0
  where all went well and > 0 where not: LAPACK's codes, which pivot or no convergence.

`check_finite=True` makes a matrix with NaN or infinity a failed member, of code -1. Without it the
arithmetic takes its course: that member fails, or some of its results are NaN; other members are as they
would be alone.

`overwrite_a=True` lets a routine use the memory of its operand, whose contents are lost: one contiguous
matrix that is large enough is factored in place.
"""

from .._base.errors import LinAlgError
from .batches import eigh_batch, solve_batch, svd_batch
from .eigen_variants import eig_two_sided, eigh_generalized, eigh_subset
from .factor import cho_factor, cholesky, lu, lu_factor, qr, svd, svdvals
from .factorization import Factorization, factorize
from .forms import polar, schur
from .full_pivot import full_piv_lu, full_piv_lu_solve
from .functions_of_matrices import expm, sqrtm
from .gauges import canonical_svd, canonical_vectors, positive_qr
from .norms import cond, matrix_norm, matrix_rank, norm, pinv, vector_norm
from .products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from .qr_variants import qr_pivoted, qr_positive, qr_rank_revealing
from .randomized import randomized_svd
from .selection import Choice, select
from .solving import (
    cho_solve,
    det,
    inv,
    lstsq,
    lu_solve,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from .spectral import eig, eigh, eigvals, eigvalsh
from .truncated import truncated_svd

__all__ = [
    "Choice",
    "Factorization",
    "LinAlgError",
    "canonical_svd",
    "canonical_vectors",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eig_two_sided",
    "eigh",
    "eigh_batch",
    "eigh_generalized",
    "eigh_subset",
    "eigvals",
    "eigvalsh",
    "expm",
    "factorize",
    "full_piv_lu",
    "full_piv_lu_solve",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "polar",
    "positive_qr",
    "qr",
    "qr_pivoted",
    "qr_positive",
    "qr_rank_revealing",
    "randomized_svd",
    "schur",
    "select",
    "slogdet",
    "solve",
    "solve_batch",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svd_batch",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "truncated_svd",
    "vecdot",
    "vector_norm",
]
