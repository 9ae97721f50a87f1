"""The table of docs/gpu.md: every op, what computes it on a GPU, and on which card that has run."""

from __future__ import annotations

from itertools import groupby

from ..catalogue import CATALOGUE, OpRow
from ..table import dtypes_cell
from .backend import BINDERS, DTYPES, PRODUCTS, GpuBackend

_ON_H200 = """
    absolute acos add argmax argmin argsort asin associative_scan atan atan2 bitwise_and bitwise_not
    bitwise_or bitwise_xor broadcast_in_dim cast ceil clamp concatenate conj constant contiguous convert
    copy cos cosh divide dot_general dot_general_add dynamic_slice dynamic_truncate dynamic_update_slice
    embed_diagonal equal erf exp expand_dims expm1 extract_diagonal fft floor fold gather
    gather_dynamic_slice_sizes greater greater_equal identity ifft imag irfft ldexp less less_equal log
    log1p matmul maximum minimum multiply negate normal_exponent not_equal pad pad_to_match power real
    reciprocal reduce_max reduce_mean reduce_min reduce_prod reduce_sum remainder reshape reverse rfft
    round round_half_away rsqrt scatter scatter_along_axis select shape_of sign sin sinh slice slice_at
    sort split sqrt squeeze subtract sum_product take take_along_axis tan tanh threefry2x32 transpose
    tril triu trunc unfold cholesky triangular_solve lu lu_solve solve qr svd eigh eig
"""
RAN: dict[str, str] = dict.fromkeys(_ON_H200.split(), "NVIDIA H200, 2026-11-27")
"""Card and date of the last complete run of an op's laws on a GPU; an op that is not here has run on none."""
for _op in ("dot_general", "dot_general_add", "matmul", "sum_product"):
    RAN[_op] += ", in pieces 2026-11-28"
WAYS = {
    "elementwise": "ufuncs of CuPy, one launch each",
    "structural": "copies of CuPy",
    "reductions": "reductions of CuPy (CUB)",
    "scaling": "ufuncs of CuPy",
    "order": "stable sorts of CuPy",
    "indexing": "one `take` of places made on the device",
    "windows": "a copy for each tap",
    "contraction": "own kernels for small ones, few terms, float32; cuBLAS; cuTENSOR if installed",
    "host": "scalars on the device",
    "fft": "cuFFT",
}
GATHERED = "own kernel, one launch"
UPDATED = "own kernels around a sort of places"
OWN = {
    **dict.fromkeys(("take", "take_along_axis", "gather", "gather_dynamic_slice_sizes"), GATHERED),
    **dict.fromkeys(("scatter", "scatter_along_axis"), UPDATED),
    "threefry2x32": GATHERED,
    **dict.fromkeys(("copy", "contiguous"), "own tiles; of few elements copies of CuPy"),
}
"""Ops with kernels of einloom's own; what these do not read goes by CuPy's functions."""
FAMILIES = {
    "cholesky": "own kernel to order 32, then cuSOLVER's potrf",
    "triangular_solve": "cuBLAS's trsm",
    "lu": "cuBLAS's and cuSOLVER's getrf",
    "lu_solve": "cuBLAS's and cuSOLVER's getrs",
    "solve": "own kernels to order 160 as a block holds it, then getrf and getrs",
    "qr": "own kernel to min(m, n) = 128 as a block holds it, then cuSOLVER's geqrf, one by one",
    "svd": "own kernel to min(m, n) = 128 as a block holds it, then cuSOLVER's gesvd, one by one",
    "eigh": "own kernel to order 32, then cuSOLVER's Xsyev, syevd for one matrix",
    "eig": "cuSOLVER's Xgeev, one matrix after another",
}
"""Ops of linear algebra, which run as extension families; the other families are made of these."""
HEAD = "| op | dtypes on a GPU | computed by | has run on |\n|---|---|---|---|"


def gpu_table() -> str:
    """A row for each op; a dash where there is no kernel.

    >>> next(line for line in gpu_table().splitlines() if "threefry" in line)
    '| `threefry2x32` | int8–64, uint8–64 | own kernel, one launch | NVIDIA H200, 2026-11-27 |'
    """
    supported = GpuBackend(None).capabilities()
    lines = [HEAD]
    for _, rows in groupby(CATALOGUE.values(), key=lambda row: row.group):
        for row in rows:
            if row.name in BINDERS:
                names = dtypes_cell(supported[row.name] & DTYPES)
                lines.append(f"| `{row.name}` | {names} | {_way(row)} | {_ran(row.name)} |")
            elif row.name in FAMILIES:
                dtypes = "float32, float64, complex64, complex128"
                lines.append(
                    f"| `{row.name}` | {dtypes} | {FAMILIES[row.name]} | {_ran(row.name)} |"
                )
            else:
                lines.append(f"| `{row.name}` | - | `Unsupported` | - |")
    return "\n".join(lines)


def _way(row: OpRow) -> str:
    if row.is_view:
        return "a view"
    if row.name in OWN:
        return OWN[row.name]
    return WAYS["contraction"] if row.name in PRODUCTS else WAYS[row.group]


def _ran(op: str) -> str:
    return RAN.get(op, "no card yet")
