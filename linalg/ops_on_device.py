"""The runtimes of the families on a GPU: its factorisations, and the rest of each op over its array module.

Nothing waits for the device, but an op that raises must look at its codes: `on_error="nan"` or "info" keeps
the work queued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._base.errors import Unsupported
from ..backend.catalogue import Attrs
from ..backend.choice import elsewhere
from ..backend.gpu import linalg as gpu
from ..backend.gpu.codes import any_set, filled
from . import rules
from .failures import NOT_FINITE, failed
from .gauges import fix_svd, fix_vectors
from .op import Op
from .truncated import NOT_OURS, cut_svd

Array = Any
Outputs = tuple[tuple[Array, ...], Array | None]
Run = Callable[..., Outputs]
"""`run(xp, attrs, *arrays)`: outputs, and codes where something can fail."""


def run_on_device(op: Op, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
    """A family's runtime: as `op.execute` on the CPU.

    Raises:
        LinAlgError: a matrix failed, and the attributes do not say what else to do.
    """
    return run_there(op, elsewhere(op.name, arrays), attrs, *arrays)


def run_there(op: Op, backend: Any, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
    """The same for arrays that are known to be the backend's."""
    if backend.sole_ordinal is None:
        return _run(op, backend.xp, backend, attrs, *arrays)
    with backend.xp.cuda.Device(backend.ordinal):
        return _run(op, backend.xp, backend, attrs, *arrays)


def _run(op: Op, xp: Any, backend: Any, attrs: Attrs, *arrays: Array) -> tuple[Array, ...]:
    on_error = attrs.get("on_error", "raise")
    good = None
    if attrs.get("check_finite"):
        good = _all_finite(xp, arrays if op.reads is None else op.reads(attrs, *arrays))
        arrays = tuple(
            xp.where(good[..., None, None], x, xp.zeros((), x.dtype)) if x.dtype.kind in "fc" else x
            for x in arrays
        )
    outputs, info = RUNS[op.name](xp, attrs, *arrays)
    if good is not None:
        info = xp.where(good, 0 if info is None else info, NOT_FINITE).astype(np.int32)
    if on_error == "raise":
        if info is not None and any_set(xp, info):
            raise failed(op.name, op.failure, backend.to_host(info))
        return outputs
    if info is not None:
        outputs = filled(xp, outputs, info)
    elif on_error == "info":
        info = xp.zeros(arrays[0].shape[:-2], np.int32)
    return (*outputs, info) if on_error == "info" else outputs


def _all_finite(xp: Any, arrays: tuple[Array, ...]) -> Array:
    good: Any = True
    for x in arrays:
        good = xp.all(xp.isfinite(x), axis=(-2, -1)) & good
    return good


def _cholesky(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    c, info = gpu.cholesky(xp, a, not attrs.get("upper", False))
    return (c,), info


def _solve(xp: Any, attrs: Attrs, a: Array, b: Array) -> Outputs:
    x, info = gpu.solve(xp, a, b)
    return (x,), info


def _inv(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    x, info = gpu.inv(xp, a)
    return (x,), info


def _det(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    return (gpu.det(xp, a),), None


def _slogdet(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    return gpu.slogdet(xp, a), None


def _lu_factor(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    return gpu.lu_factors(xp, a), None


def _lu(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    packed, swaps = gpu.lu_factors(xp, a)
    m, k = a.shape[-2], min(a.shape[-2:])
    lower = xp.tril(packed[..., :, :k], -1) + xp.eye(m, k, dtype=a.dtype)
    upper = xp.triu(packed[..., :k, :])
    order = xp.argsort(gpu.row_order(xp, swaps, m), axis=-1)
    if attrs.get("permute_l"):
        return (xp.take_along_axis(lower, order[..., None], axis=-2), upper), None
    if attrs.get("p_indices"):
        return (order.astype(np.intp, copy=False), lower, upper), None
    p = (order[..., None] == xp.arange(m, dtype=order.dtype)).astype(rules.real(a.dtype))
    return (p, lower, upper), None


def _lu_solve(xp: Any, attrs: Attrs, packed: Array, swaps: Array, b: Array) -> Outputs:
    """Rows of a member that failed before are -1: they are read as 0, and its code says so."""
    lost = xp.any(swaps < 0, axis=-1)
    swaps = xp.where(swaps < 0, 0, swaps).astype(np.int32, copy=False)
    info = xp.where(lost, NOT_FINITE, _unusable(xp, packed)).astype(np.int32)
    return (gpu.lu_solve(xp, packed, swaps, b, attrs.get("trans", "N")),), info


def _cho_solve(xp: Any, attrs: Attrs, c: Array, b: Array) -> Outputs:
    return (gpu.cho_solve(xp, c, b, not attrs.get("upper", False)),), _unusable(xp, c)


def _unusable(xp: Any, factor: Array) -> Array:
    """The codes of factors with zero, NaN or infinity on the diagonal."""
    finite = xp.all(xp.isfinite(gpu.diagonal(xp, factor)), axis=-1)
    return xp.where(finite, gpu.zero_pivot(xp, factor), NOT_FINITE).astype(np.int32)


def _triangular_solve(xp: Any, attrs: Attrs, a: Array, b: Array) -> Outputs:
    x, info = gpu.triangular_solve(
        xp,
        a,
        b,
        attrs.get("lower", False),
        attrs.get("trans", "N"),
        attrs.get("unit_diagonal", False),
        attrs.get("side", "left") == "left",
    )
    return (x,), info


def _qr(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    return gpu.qr(xp, a, attrs["mode"]), None


def _qr_positive(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    return _positive_qr(xp, attrs, *gpu.qr(xp, a, attrs["mode"]))


def _positive_qr(xp: Any, attrs: Attrs, q: Array, r: Array) -> Outputs:
    """Columns of q take the phases of r's diagonal, rows of r their conjugates."""
    rows, k = r.shape[-2], min(r.shape[-2:])
    diagonal = gpu.diagonal(xp, r)
    size = xp.abs(diagonal)
    turned = (size > 0) & xp.isfinite(size)
    phase = xp.where(turned, diagonal / xp.where(turned, size, 1), 1).astype(r.dtype, copy=False)
    if k < rows:
        ones = xp.ones((*phase.shape[:-1], rows - k), r.dtype)
        phase = xp.concatenate((phase, ones), axis=-1)
    q = q * phase[..., None, : q.shape[-1]]
    r = r * phase.conj()[..., :, None]
    index = xp.arange(k, dtype=np.int64)
    r[..., index, index] = size  # no imaginary part is left to rounding
    return (q + 0.0, r + 0.0), None


def _eigh(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    vectors = attrs.get("vectors", True)
    w, v, info = gpu.eigh(xp, a, not attrs.get("upper", False), vectors)
    return ((w, v) if vectors else (w,)), info


def _hermitian_svd(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    vectors = attrs.get("vectors", True)
    w, v, info = gpu.eigh(xp, a, True, vectors)
    s = xp.abs(w)
    order = xp.argsort(-s, axis=-1)
    s = xp.take_along_axis(s, order, axis=-1)
    if not vectors:
        return (s,), info
    u = xp.take_along_axis(v, order[..., None, :], axis=-1)
    sign = xp.where(xp.take_along_axis(w, order, axis=-1) < 0, -1, 1).astype(w.dtype)
    return (u, s, gpu.adjoint(u * sign[..., None, :])), info


def _svd(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    vectors = attrs.get("vectors", True)
    u, s, vh, info = gpu.svd(xp, a, attrs.get("full", False), vectors)
    return ((u, s, vh) if vectors else (s,)), info


def _truncated_svd(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    u, s, vh, info = gpu.svd(xp, a)
    assert u is not None
    assert vh is not None
    named = {name: value for name, value in attrs.items() if name not in (*NOT_OURS, "shrink")}
    return tuple(cut_svd(u, s, vh, **named)), info


def _polar(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    w, s, vh, info = gpu.svd(xp, a)
    basis = w if attrs.get("side") == "left" else gpu.adjoint(vh)
    p = xp.matmul(basis * s[..., None, :], gpu.adjoint(basis))
    return (xp.matmul(w, vh), (p + gpu.adjoint(p)) / 2), info


def _eig(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    if attrs.get("left"):
        raise Unsupported(
            "eig on a GPU gives right eigenvectors only, as CuPy does; download the matrices first, "
            "to_host(a) of the GPU's backend, and ask for left ones on the CPU"
        )
    right = attrs.get("right", True)
    w, v, info = gpu.eig(xp, a, right)
    return ((w, v) if right else (w,)), info


def _pinv(xp: Any, attrs: Attrs, a: Array) -> Outputs:
    u, s, vh, info = gpu.svd(xp, a)
    return (gpu.pseudoinverse(xp, u, s, vh, attrs["rcond"]),), info


def _lstsq(xp: Any, attrs: Attrs, a: Array, b: Array) -> Outputs:
    rcond = attrs.get("rcond", float(np.finfo(a.dtype).eps * max(a.shape[-2:])))
    *found, info = gpu.lstsq(xp, a, b, rcond)
    return tuple(found), info


RUNS: dict[str, Run] = {
    "cholesky": _cholesky,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "lu_factor": _lu_factor,
    "lu": _lu,
    "lu_solve": _lu_solve,
    "cho_solve": _cho_solve,
    "triangular_solve": _triangular_solve,
    "qr": _qr,
    "qr_positive": _qr_positive,
    "positive_qr": _positive_qr,
    "eigh": _eigh,
    "hermitian_svd": _hermitian_svd,
    "svd": _svd,
    "truncated_svd": _truncated_svd,
    "canonical_svd": lambda xp, attrs, *x: (fix_svd(*x), None),
    "canonical_vectors": lambda xp, attrs, v: ((fix_vectors(v),), None),
    "polar": _polar,
    "eig": _eig,
    "pinv": _pinv,
    "lstsq": _lstsq,
}
