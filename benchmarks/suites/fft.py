"""Fourier transforms: long ones, many short ones, several axes, strided axes, on one and two threads.

Ratios count SciPy, with as many workers as einloom has threads, and NumPy, which has none; for strided axes
every peer. The others stand beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import einloom
from einloom._base.options import num_threads, options

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender

CALLS = 1000  # of a transform of 16 points
TOLERANCE = {"f": 1e-4, "F": 1e-4, "d": 1e-10, "D": 1e-10}
QUICK = 1 << 12  # elements of a quick case
REAL = "fd"


@dataclass(frozen=True)
class Case:
    """One transform of random numbers; real ones give a half spectrum."""

    group: str
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    threads: int

    @property
    def name(self) -> str:
        size = "x".join(map(str, self.shape))
        axes = "" if len(self.shape) == 1 else f" axes {','.join(map(str, self.axes))}"
        plural = "s" * (self.threads > 1)
        return f"{self.group}: {self.dtype} {size}{axes}, {self.threads} thread{plural}"


def fft(quick: bool) -> Iterator[CaseResult]:
    """Fourier transforms beside scipy.fft with workers, numpy.fft, torch, JAX, ducc0, FFTW and MKL."""
    yield _calls(quick)
    rng = np.random.default_rng(22)
    for case in cases():
        shape = shrunk(case.shape) if quick else case.shape
        x = numbers(rng, shape, case.dtype)
        everybody = contenders(x, case)
        apart = () if case.group == "strided" else tuple(everybody)[3:]
        with options(threads=case.threads):
            yield measure(
                case.name,
                everybody,
                rounds=5,
                budget=4.0,
                tolerance=TOLERANCE[x.dtype.char],
                baselines=apart,
                facts={"set": f"{case.group}, {case.threads} threads", "dtype": case.dtype,
                       "shape": shape, "axes": case.axes, "threads": case.threads,
                       "steps": described(x, case)},
                quick=quick,
            )  # fmt: skip


def described(x: Any, case: Case) -> list[str]:
    """What einloom runs."""
    kind = "rfft" if x.dtype.char in REAL else "fft"
    plan = einloom.fft.plan(x.shape, case.axes, x.dtype, kind=kind, workers=case.threads)
    return [step.how for step in plan.steps]


# ---- cases ------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    two = max(2, num_threads())
    for threads in (two, 1):
        for group, dtypes, shapes in TABLE:
            for dtype in dtypes:
                for shape, axes in shapes:
                    if threads == two or shape in ON_ONE_THREAD:
                        yield Case(group, dtype, shape, axes, threads)


def _long(*lengths: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    return tuple(((n,), (0,)) for n in lengths)


Z, C, D, F = "complex128", "complex64", "float64", "float32"
BATCHES = tuple(
    ((many, n), (1,)) for many, n in ((100_000, 16), (20_000, 64), (4096, 256), (1024, 1024))
)
STRIDED = (
    ((1024, 1024), (0,)),
    ((1000, 1000), (0,)),
    ((4096, 256), (0,)),
    ((64, 64, 64), (0,)),
    ((64, 64, 64), (1,)),
    ((128, 64, 256), (1,)),
)
TABLE: tuple[tuple[str, tuple[str, ...], Any], ...] = (
    ("one", (Z,), _long(8, 64, 1000, 4096, 10_007, 1 << 16, 100_000, 1 << 20, 1_000_003, 1 << 22)),
    ("one", (C, D, F), _long(64, 4096, 1 << 18)),
    ("batch", (Z, C), BATCHES),
    ("batch", (D, F), BATCHES[1:3]),
    ("several axes", (Z, C), (((1024, 1024), (0, 1)), ((128, 128, 128), (0, 1, 2)))),
    ("several axes", (D, F), (((1000, 1000), (0, 1)),)),
    ("several axes", (C,), (((200, 64, 64), (1, 2)),)),
    ("strided", (Z, C), STRIDED),
    ("strided", (D, F), STRIDED[1:2]),
)
ON_ONE_THREAD = {(64,), (4096,), (1 << 20,), (20_000, 64), (1024, 1024), (64, 64, 64)}


def shrunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with its longest axes halved until it is small."""
    sizes = list(shape)
    while math.prod(sizes) > QUICK:
        longest = sizes.index(max(sizes))
        sizes[longest] = (sizes[longest] + 1) // 2
    return tuple(sizes)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def _calls(quick: bool) -> CaseResult:
    """What a call costs beyond the transform: a thousand of 16 points."""
    import scipy.fft

    x = numbers(np.random.default_rng(1), (16,), "complex128")
    calls = range(2 if quick else CALLS)

    def often(function: Callable[..., Any]) -> Contender:
        def call() -> Any:
            for _ in calls:
                result = function(x)
            return result

        return call

    everybody = {"scipy": scipy.fft.fft, "numpy": np.fft.fft, "einloom": einloom.fft.fft}
    result = measure(
        f"calls: {CALLS} of complex128 16",
        {who: often(function) for who, function in everybody.items()},
        rounds=9,
        facts={"set": "calls", "calls": len(calls)},
        quick=quick,
    )
    ours, theirs = (result.seconds[who] / len(calls) for who in ("einloom", "scipy"))
    result.facts["microseconds_over_scipy"] = (ours - theirs) * 1e6
    return result


# ---- contenders -------------------------------------------------------------------------------


def contenders(x: Any, case: Case) -> dict[str, Contender]:
    """scipy, numpy, einloom, then the others; on one thread those that are told so by an argument."""
    import scipy.fft

    name, axes, threads = "rfftn" if x.dtype.char in REAL else "fftn", case.axes, case.threads
    everybody: dict[str, Contender] = {
        "scipy": lambda: getattr(scipy.fft, name)(x, axes=axes, workers=threads),
        "numpy": lambda: getattr(np.fft, name)(x, axes=axes),
        "einloom": lambda: getattr(einloom.fft, name)(x, axes=axes),
    }
    if len(axes) == 1:
        one, axis = name[:-1], axes[0]
        everybody["scipy"] = lambda: getattr(scipy.fft, one)(x, axis=axis, workers=threads)
        everybody["numpy"] = lambda: getattr(np.fft, one)(x, axis=axis)
        everybody["einloom"] = lambda: getattr(einloom.fft, one)(x, axis=axis)
    for who, make in (PEERS if threads > 1 else {"ducc0": _ducc0}).items():
        made = make(x, axes, name, threads)
        if made is not None:
            everybody[who] = made
    return everybody


def _torch(x: Any, axes: tuple[int, ...], name: str, threads: int) -> Contender | None:
    torch = peers.torch()
    if torch is None:
        return None
    tensor, function = torch.from_numpy(x), getattr(torch.fft, name)
    return lambda: function(tensor, dim=axes).numpy()


def _jax(x: Any, axes: tuple[int, ...], name: str, threads: int) -> Contender | None:
    jax = peers.jax()
    if jax is None:
        return None
    array = jax.numpy.asarray(x)
    function = getattr(jax.numpy.fft, name)
    jitted = jax.jit(lambda y: function(y, axes=axes))
    return lambda: jitted(array).block_until_ready()


def _ducc0(x: Any, axes: tuple[int, ...], name: str, threads: int) -> Contender | None:
    ducc0 = peers.ducc0()
    if ducc0 is None:
        return None
    function = ducc0.fft.r2c if name == "rfftn" else ducc0.fft.c2c
    return lambda: function(x, axes=axes, nthreads=threads)


def _pyfftw(x: Any, axes: tuple[int, ...], name: str, threads: int) -> Contender | None:
    pyfftw = peers.pyfftw()
    if pyfftw is None:
        return None
    function = getattr(pyfftw.interfaces.scipy_fft, name)
    return lambda: function(x, axes=axes, workers=threads)


def _mkl_fft(x: Any, axes: tuple[int, ...], name: str, threads: int) -> Contender | None:
    mkl_fft = peers.mkl_fft()
    if mkl_fft is None:
        return None
    return lambda: getattr(mkl_fft, name)(x, axes=axes)


PEERS = {"torch": _torch, "jax": _jax, "ducc0": _ducc0, "pyfftw": _pyfftw, "mkl_fft": _mkl_fft}
