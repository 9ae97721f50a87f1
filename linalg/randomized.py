"""Randomized SVD: the leading singular values of large matrices from a few products with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import OptionError
from ..backend.cpu import linalg as cpu
from ..backend.cpu.threefry import normal
from .beyond import Failure, OnError, matrices, settle
from .gauges import Gauge, canonical_svd
from .truncated import one_of

Array = np.ndarray[Any, Any]


def randomized_svd(
    a: Any,
    rank: int,
    *,
    oversampling: int = 10,
    power_iterations: int = 2,
    seed: int = 0,
    gauge: Gauge = "raw",
    on_error: OnError = "raise",
    check_finite: bool = True,
) -> tuple[Any, Any, Any]:
    """a ~ u @ diag(s) @ vh of the given rank, from the range of (a aᴴ)^q a Ω with a random Ω.

    The columns of Ω are rank + oversampling normal vectors; their images span nearly the leading left
    singular vectors, the better the faster singular values decay and the larger q (power_iterations),
    with an orthogonalisation after every product. Where they decay slowly the result is worse than
    that of `truncated_svd`: for singular values beyond the rank that are small it is as good.

    Ω is made by Threefry-2x32 and is a function of the seed and of its shape: every matrix of a batch
    meets the same one, so that its result does not depend on the batch that it is in.

    Args:
        a: [..., m, n], float or complex.
        rank: singular values to return, at least 1; more than min(m, n) are min(m, n).
        oversampling: columns of Ω beyond the rank.
        power_iterations: q.
        seed: 0 <= seed < 2**64.
        gauge: "canonical" fixes signs and phases, see `canonical_svd`.
        on_error, check_finite: as in `truncated_svd`.

    Returns:
        u [..., m, rank], s [..., rank], vh [..., rank, n].

    Raises:
        LinAlgError: no convergence, with the indices of the matrices.
        ShapeError, DTypeError, OptionError: what cannot be meant.

    Complexity: 2 (q + 1) products of m n (rank + oversampling) multiplications.
    N. Halko, P. Martinsson, J. Tropp, SIAM Rev. 53, 217 (2011), algorithms 4.4 and 5.1.

    >>> import numpy as np
    >>> a = np.outer(np.arange(1.0, 200.0), np.ones(100))
    >>> u, s, vh = randomized_svd(a, 1)
    >>> bool(np.allclose(u * s @ vh, a))
    True
    """
    call = "randomized_svd"
    for name, value, least in (
        ("rank", rank, 1),
        ("oversampling", oversampling, 0),
        ("power_iterations", power_iterations, 0),
        ("seed", seed, 0),
    ):
        _whole(call, name, value, least)
    one_of(call, "gauge", gauge, ("raw", "canonical"))
    one_of(call, "on_error", on_error, ("raise", "nan"))
    a = matrices(a, call, check_finite=check_finite)
    rank = min(rank, *a.shape[-2:])
    basis = _range(a, min(rank + oversampling, *a.shape[-2:]), power_iterations, seed)
    u, s, vh, info = cpu.svd(basis.conj().swapaxes(-1, -2) @ a)
    assert u is not None
    assert vh is not None
    u, s, vh = basis @ u[..., :, :rank], s[..., :rank], vh[..., :rank, :]
    settle(call, info, Failure.SVD, on_error, u, s, vh)
    return canonical_svd(u, s, vh) if gauge == "canonical" else (u, s, vh)


def _range(a: Array, columns: int, power_iterations: int, seed: int) -> Array:
    """An orthonormal basis [..., m, columns] that nearly holds the leading left singular vectors."""
    adjoint = a.conj().swapaxes(-1, -2)
    basis = cpu.qr(a @ normal(seed, (a.shape[-1], columns), a.dtype), "reduced")[0]
    for _ in range(power_iterations):
        basis = cpu.qr(adjoint @ basis, "reduced")[0]
        basis = cpu.qr(a @ basis, "reduced")[0]
    return basis


def _whole(call: str, name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(f"{call}({name}={value!r}): give an integer >= {least}")
