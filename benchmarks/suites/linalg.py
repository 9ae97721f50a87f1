"""Factorisations and solves of batches, against NumPy, SciPy, torch and JAX.

What is compared are samples: solutions, or the matrices that the factors multiply to. SciPy's functions loop
over a batch in Python, so they take part where the batch is small.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import einloom

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

Array = np.ndarray[Any, Any]
DTYPES = ("float64", "float32", "complex128", "complex64")
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 256, 1000)
FEWER = (2, 4, 8, 16, 32, 64, 256)  # of the dtypes but the first
FEW = (1, 10)  # matrices: calls that are mostly overhead
SMALL_ORDERS = (2, 4, 8, 16)
SAMPLE = 50
LOOPED = 64  # matrices up to which SciPy takes part
QUICK = (2, 5)
BANDS = ((16, "n <= 16"), (64, "n <= 64"), (1 << 62, "beyond"))


@dataclass(frozen=True)
class Op:
    """What is called by which name, on what, and what of the result is compared."""

    inputs: Callable[[Array], tuple[Array, ...]]
    compared: Callable[..., Array]
    megabytes: float = 50  # of the batch: fewer for what takes long
    numpy: str = ""
    scipy: str = ""
    torch: str = ""
    jax: str = ""


def general(a: Array) -> tuple[Array, ...]:
    return (a,)


def with_right(a: Array) -> tuple[Array, ...]:
    return a, np.ascontiguousarray(a[..., :1])


def positive(a: Array) -> tuple[Array, ...]:
    n = a.shape[-1]
    return (a @ adjoint(a) + n * np.eye(n, dtype=a.dtype),)


def hermitian(a: Array) -> tuple[Array, ...]:
    return (a + adjoint(a),)


def moderate(a: Array) -> tuple[Array, ...]:
    """Normal numbers times what makes a typical determinant 1: its mean square is n! of real ones."""
    n = a.shape[-1]
    size = math.exp(math.lgamma(n + 1) / (2 * n)) * (math.sqrt(2) if a.dtype.kind == "c" else 1)
    return (a / np.asarray(size, a.real.dtype),)


def tall(a: Array) -> tuple[Array, ...]:
    """Half of the columns, n by n/2, and the last one."""
    columns = max(1, a.shape[-1] // 2)
    return np.ascontiguousarray(a[..., :columns]), np.ascontiguousarray(a[..., -1:])


def shrunk(a: Array) -> tuple[Array, ...]:
    return (a / np.asarray(2 * a.shape[-1], a.real.dtype),)


def adjoint(a: Array) -> Array:
    return np.asarray(a.swapaxes(-1, -2).conj())


def product(v: Array, w: Array) -> Array:
    return (v * w[..., None, :]) @ adjoint(v)


OPS: dict[str, Op] = {
    "solve": Op(with_right, lambda x: x, 50, "solve", "solve", "solve", "linalg.solve"),
    "inv": Op(general, lambda x: x, 50, "inv", "inv", "inv", "linalg.inv"),
    "det": Op(moderate, lambda d: d, 50, "det", "det", "det", "linalg.det"),
    "cholesky": Op(positive, lambda c: c, 50, "cholesky", "", "cholesky", "linalg.cholesky"),
    "lu": Op(general, lambda lu, p: lu, 50, "", "lu_factor", "lu_factor", "scipy.linalg.lu_factor"),
    "qr": Op(general, lambda q, r: q @ r, 25, "qr", "", "qr", "linalg.qr"),
    "eigh": Op(hermitian, lambda w, v: product(v, w), 8, "eigh", "eigh", "eigh", "linalg.eigh"),
    "svd": Op(
        general, lambda u, s, vh: (u * s[..., None, :]) @ vh, 8, "svd", "", "svd", "linalg.svd"
    ),
    "eig": Op(
        general, lambda w, v: v * w[..., None, :] @ np.linalg.inv(v), 4, "eig", "", "eig", ""
    ),
    "pinv": Op(tall, lambda x: x, 8, "pinv", "", "pinv", "linalg.pinv"),
    "lstsq": Op(tall, lambda x, *_: x, 8, "", "", "lstsq", ""),
    "expm": Op(shrunk, lambda x: x, 8, "", "expm", "matrix_exp", "scipy.linalg.expm"),
}
FIRST = {"pinv"}  # which take the first input alone
OURS = {"lu": "lu_factor"}


def linalg(quick: bool) -> Iterator[CaseResult]:
    """Batches of matrices, few, and single ones: 14 orders in double precision, seven in the other dtypes."""
    for part in PARTS.values():
        yield from part(quick)


def cases(op: str, quick: bool = False, dtypes: tuple[str, ...] = DTYPES) -> Iterator[CaseResult]:
    """One op on batches."""
    for dtype in dtypes:
        orders = QUICK if quick else ORDERS if dtype == DTYPES[0] else FEWER
        for n in orders:
            size = n * n * np.dtype(dtype).itemsize
            yield case(
                op, dtype, n, 3 if quick else max(1, int(OPS[op].megabytes * 1e6 // size)), quick
            )


def few(quick: bool) -> Iterator[CaseResult]:
    """Batches of one and ten matrices."""
    for name in () if quick else OPS:
        for n in SMALL_ORDERS:
            for count in FEW:
                yield case(name, DTYPES[0], n, count, quick, "few")


def case(op: str, dtype: str, n: int, count: int, quick: bool, band: str = "") -> CaseResult:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((count, n, n))
    if dtype[0] == "c":
        a = a + 1j * rng.standard_normal((count, n, n))
    inputs = OPS[op].inputs(a.astype(dtype))
    band = band or next(name for most, name in BANDS if n <= most)
    return measure(
        f"{op} {dtype} {count} of {n}",
        contenders(op, inputs if op not in FIRST else inputs[:1]),
        rounds=3,
        budget=2.0,
        tolerance=2e-2 if np.dtype(dtype).itemsize in (4, 8) and dtype != "float64" else 1e-6,
        facts={"set": f"{op}, {band}", "order": n, "batch": count, "dtype": dtype},
        quick=quick,
    )


def contenders(op: str, inputs: tuple[Array, ...]) -> dict[str, Contender]:
    """Calls whose results become a sample of what is compared, when they are compared."""
    row = OPS[op]
    calls: dict[str, Callable[[], Any]] = {}
    if row.numpy:
        calls["numpy"] = partial(getattr(np.linalg, row.numpy), *inputs, **_options(row.numpy))
    ours = getattr(einloom.linalg, OURS.get(op, op), None)
    if ours is not None:
        calls["einloom"] = partial(ours, *inputs, **_options(op))
    if row.scipy and len(inputs[0]) <= LOOPED:
        import scipy.linalg

        calls["scipy"] = partial(getattr(scipy.linalg, row.scipy), *inputs)
    torch = peers.torch()
    if torch is not None and row.torch:
        tensors = [torch.from_numpy(x) for x in inputs]
        options = TORCH_OPTIONS.get(row.torch, {})
        calls["torch"] = partial(getattr(torch.linalg, row.torch), *tensors, **options)
    jax = peers.jax()
    if jax is not None and row.jax:
        calls["jax"] = _compiled(jax, row.jax, inputs)
    return {who: partial(_Sample, call, row.compared) for who, call in calls.items()}


def _options(name: str) -> dict[str, Any]:
    return {"full_matrices": False} if name == "svd" else {}


# torch's own choice for least squares, gelsy, gives no singular values
TORCH_OPTIONS = {"svd": {"full_matrices": False}, "lstsq": {"driver": "gelsd"}}


def _compiled(jax: Any, name: str, inputs: tuple[Array, ...]) -> Callable[[], Any]:
    function = jax.numpy
    if name.startswith("scipy."):
        import jax.scipy.linalg

        function = jax
    for part in name.split("."):
        function = getattr(function, part)
    options = _options(name.rpartition(".")[2])
    run = jax.jit(jax.vmap(partial(function, **options)))
    arrays = [jax.numpy.asarray(x) for x in inputs]
    return lambda: jax.block_until_ready(run(*arrays))


# ---- single small matrices ----------------------------------------------------------------------

CALLS = 1000
CALL_ORDERS = (4, 16)


SINGLE = ("solve", "inv", "det", "cholesky", "lu", "qr", "eigh", "svd", "eig")


def calls(quick: bool) -> Iterator[CaseResult]:
    """What a call of one small matrix costs beyond LAPACK's routine, as SciPy wraps it."""
    for op in SINGLE:
        for n in CALL_ORDERS[:1] if quick else CALL_ORDERS:
            yield _called(op, n, quick)


def _called(op: str, n: int, quick: bool) -> CaseResult:
    a = np.random.default_rng(n).standard_normal((1, n, n))
    inputs = tuple(x[0] for x in OPS[op].inputs(a))
    times = range(2 if quick else CALLS)
    everybody = {
        "einloom": partial(getattr(einloom.linalg, OURS.get(op, op)), *inputs, **_options(op)),
    }
    if OPS[op].numpy:
        everybody["numpy"] = partial(getattr(np.linalg, OPS[op].numpy), *inputs, **_options(op))

    def often(call: Callable[[], Any]) -> Any:
        for _ in times:
            result = call()
        return result

    compared = OPS[op].compared
    bare = partial(often, partial(routine(op), *inputs))
    result = measure(
        f"{op} {CALLS} calls of {n}",
        {
            **{
                who: partial(_Sample, partial(often, call), compared)
                for who, call in everybody.items()
            },
            "lapack": lambda: (bare(), 0)[1],  # what it returns differs from routine to routine
        },
        rounds=7,
        baselines=("lapack",),
        unchecked=("lapack",),
        facts={"set": "single calls", "order": n, "batch": 1, "dtype": "float64"},
        quick=quick,
    )
    over = _over(everybody["einloom"], partial(routine(op), *inputs), quick)
    result.facts["microseconds_over_lapack"] = over * 1e6
    return result


def _over(ours: Callable[[], Any], bare: Callable[[], Any], quick: bool) -> float:
    """Seconds of a call beyond the bare routine's: the median of differences of neighbouring turns.

    A clock that changes its pace during a turn of a thousand calls would hide a microsecond; turns of fifty
    follow each other within a millisecond.
    """
    calls, turns = (2, 2) if quick else (50, 400)

    def turn(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    differences = []
    for i in range(turns):
        both = (ours, bare) if i % 2 else (bare, ours)
        seconds = {call: turn(call) for call in both}
        differences.append(seconds[ours] - seconds[bare])
    return statistics.median(differences)


def routine(op: str) -> Callable[..., Any]:
    """The wrapper of LAPACK's routine in double precision; of two routines for QR."""
    from scipy.linalg import lapack

    def qr(a: Array) -> Any:
        packed, tau, *_ = lapack.dgeqrf(a)
        return lapack.dorgqr(packed, tau)

    one_by_one = {
        "inv": lambda a: lapack.dgesv(a, np.eye(len(a))),
        "qr": qr,
        "svd": partial(lapack.dgesdd, full_matrices=False),
    }
    names = {"solve": "dgesv", "det": "dgetrf", "cholesky": "dpotrf", "lu": "dgetrf"}
    names |= {"eigh": "dsyevd", "eig": "dgeev"}
    return one_by_one.get(op) or getattr(lapack, names[op])


class _Sample:
    """A result; as an array, what is compared of its first matrices."""

    def __init__(self, call: Callable[[], Any], compared: Callable[..., Array]) -> None:
        self.result, self.compared = call(), compared

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        result = self.result
        parts = result if isinstance(result, (tuple, list)) else (result,)
        return self.compared(*(np.atleast_1d(x)[:SAMPLE] for x in parts))


PARTS: dict[str, Callable[[bool], Iterator[CaseResult]]] = {
    **{op: partial(cases, op) for op in OPS},
    "few": few,
    "calls": calls,
}
