"""Randomized SVD: the leading singular values of large matrices from a few products with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.random_arrays import fill_normal
from ..backend.dims import minimum
from ..backend.spec import ArraySpec
from . import rules
from .beyond import finished, one_of, whole
from .failures import OnError
from .gauges import Gauge, fix_svd
from .op import Specs, apply, define
from .operands import adjoint, matrix, wrap_of
from .ops import NO_SVD
from .results import SVDResult

Array = np.ndarray[Any, Any]

OVERSAMPLING, ITERATIONS = 10, 2


def randomized_svd(
    a: Any,
    rank: int,
    *,
    oversampling: int = OVERSAMPLING,
    power_iterations: int = ITERATIONS,
    seed: int = 0,
    gauge: Gauge = "raw",
    on_error: OnError = "raise",
    check_finite: bool = False,
) -> Any:
    """a ~ u @ diag(s) @ vh of the given rank, from the range of (a aᴴ)^q a Ω with a random Ω.

    The columns of Ω are rank + oversampling normal vectors; their images span nearly the leading left
    singular vectors, the better the faster singular values decay and the larger q (power_iterations),
    with an orthogonalisation after every product. Where they decay slowly the result is worse than
    that of `truncated_svd`: for singular values beyond the rank that are small it is as good.

    Ω is `einloom.random.normal` of the seed's key, a function of the seed and of its shape: every matrix
    of a batch meets the same one, so that its result does not depend on the batch that it is in.

    Args:
        a: [..., m, n], float or complex.
        rank: singular values to return, at least 1; more than min(m, n) are min(m, n).
        oversampling: columns of Ω beyond the rank.
        power_iterations: q.
        seed: 0 <= seed < 2**64.
        gauge: "canonical" fixes signs and phases, see `canonical_svd`.
        check_finite, on_error: as everywhere in this package.

    Returns:
        SVDResult(U [..., m, rank], S [..., rank], Vh [..., rank, n]). With on_error="info" (result, info).

    Raises:
        LinAlgError: no convergence, as with NaN in a matrix.
        OptionError: an argument without meaning.

    Complexity: 2 (q + 1) products of m n (rank + oversampling) multiplications.
    N. Halko, P. Martinsson, J. Tropp, SIAM Rev. 53, 217 (2011), algorithms 4.4 and 5.1.

    >>> import numpy as np
    >>> a = np.outer(np.arange(1.0, 200.0), np.ones(100))
    >>> u, s, vh = randomized_svd(a, 1)
    >>> bool(np.allclose(u * s @ vh, a))
    True
    """
    call = "randomized_svd"
    attrs: dict[str, Any] = {}
    for name, value, least, plain in (
        ("rank", rank, 1, None),
        ("oversampling", oversampling, 0, OVERSAMPLING),
        ("power_iterations", power_iterations, 0, ITERATIONS),
        ("seed", seed, 0, 0),
    ):
        whole(call, name, value, least)
        if value != plain:
            attrs[name] = int(value)
    one_of(call, "gauge", gauge, ("raw", "canonical"))
    if gauge != "raw":
        attrs["gauge"] = gauge
    outputs, info = apply(RANDOMIZED_SVD, call, (matrix(call, a),), attrs, on_error, check_finite)
    return finished(SVDResult(*outputs), info, on_error, wrap_of(a))


def _rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> U, real S, Vh of rank min(m, n, rank)"""
    (x,) = inputs
    batch, m, n = rules.parts(x)
    r = minimum(minimum(m, n), attrs["rank"])
    return (
        ArraySpec(x.dtype, (*batch, m, r)),
        ArraySpec(rules.real(x.dtype), (*batch, r)),
        ArraySpec(x.dtype, (*batch, r, n)),
    )


def _run(attrs: Attrs, a: Array) -> tuple[tuple[Any, ...], Array | None]:
    bound = min(a.shape[-2:])
    rank = min(attrs["rank"], bound)
    columns = min(rank + attrs.get("oversampling", OVERSAMPLING), bound)
    with np.errstate(invalid="ignore", over="ignore"):
        basis = _range(a, columns, attrs.get("power_iterations", ITERATIONS), attrs.get("seed", 0))
        u, s, vh, info = cpu.svd(adjoint(basis) @ a)
    assert u is not None
    assert vh is not None
    found = basis @ u[..., :, :rank], s[..., :rank], vh[..., :rank, :]
    return fix_svd(*found) if attrs.get("gauge") == "canonical" else found, info


def _range(a: Array, columns: int, power_iterations: int, seed: int) -> Array:
    """An orthonormal basis [..., m, columns] that nearly holds the leading left singular vectors."""
    omega = np.empty((a.shape[-1], columns), a.dtype)
    fill_normal((seed >> 32, seed & 0xFFFFFFFF), omega)
    basis = cpu.qr(a @ omega, "reduced")[0]
    for _ in range(power_iterations):
        basis = cpu.qr(adjoint(a) @ basis, "reduced")[0]
        basis = cpu.qr(a @ basis, "reduced")[0]
    return basis


RANDOMIZED_SVD = define("randomized_svd", _rule, _run, NO_SVD)
