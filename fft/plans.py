"""Plans of transforms: what will run for one shape, axes and dtype, kept and called many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, OptionError, ShapeError, Unsupported
from .._base.numbers import format_bytes
from .._base.options import num_threads
from ..backend.cpu.fft import Step, Transform, planned, transform
from ..backend.spec import ArraySpec, Axes, Shape
from . import engine
from .arguments import checked_out, integers, length, norm_code, positions, threads_of

KINDS: dict[str, tuple[str, bool]] = {
    "fft": ("c2c", True), "ifft": ("c2c", False),
    "rfft": ("r2c", True), "ihfft": ("r2c", False),
    "irfft": ("c2r", False), "hfft": ("c2r", True),
    "dct": ("dct", True), "idct": ("dct", False),
    "dst": ("dst", True), "idst": ("dst", False),
}  # fmt: skip
INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
"""Of each type of dct or dst, the type that inverts it."""

WORDS = {
    "whole": "one call of the library",
    "batch": "members of the batch shared out, {rows} at a time, all axes at once",
    "lines": "lines shared out along axis {along}",
    "lanes": "a line in every lane, by einloom's own kernel",
}


@dataclass(frozen=True, slots=True)
class FFTPlan:
    """A transform of arrays of one shape and dtype, ready to be called; made by `plan`.

    Attributes:
        kind: "fft", "irfft", "dct" and so on.
        shape: of the operand.
        axes: in the order in which they are listed; the last is halved by rfft.
        dtype: of the operand.
        threads: how many work.
        strides: of the operands that were planned for; others are right too.
    """

    kind: str
    shape: Shape
    axes: Axes
    dtype: np.dtype[Any]
    threads: int
    strides: tuple[int, ...]
    what: Transform
    steps: tuple[Step, ...]

    @property
    def result(self) -> ArraySpec:
        """Dtype and shape of the result."""
        shape, dtype = self.what.result(self.shape, self.dtype, self.axes)
        return ArraySpec(dtype, shape)

    def __call__(self, x: Any, out: Any = None) -> Any:
        """The transform of x, an array of the plan's shape and dtype."""
        if type(x) is not np.ndarray or x.shape != self.shape or x.dtype != self.dtype:
            got = ArraySpec(x.dtype, x.shape) if isinstance(x, np.ndarray) else type(x).__name__
            raise ShapeError(
                f"FFTPlan: made for {ArraySpec(self.dtype, self.shape)}, got {got}; plan for that"
            )
        if out is not None:
            out = checked_out(out, self.result.shape, self.result.dtype, x, "FFTPlan")
        if (backend := engine.current()) is not None:
            raise Unsupported(
                f"FFTPlan: plans are for SciPy's transforms, the engine is {engine.name_of(backend)}; "
                f'set_engine("scipy")'
            )
        x = x if x.flags.aligned else x.copy()
        return transform(self.what, x, self.axes, out, self.threads)

    def describe(self) -> str:
        """What will run, as text."""
        norm = ("", ", divided by the square root of its length", ", divided by its length")
        spec = ArraySpec(self.dtype, self.shape)
        lines = [
            f"{self.kind} of {spec} along {self.axes} -> {self.result}{norm[self.what.norm]}",
            f"  engine {engine.described()}, {self.threads} thread{'s' * (self.threads != 1)}, "
            f"result {format_bytes(self.result.nbytes)}",
        ]
        lines += [f"  {line}" for step in self.steps for line in _told(step)]
        return "\n".join(lines)


def _told(step: Step) -> list[str]:
    is_small = step.how == "whole" and step.rows == 1
    how = WORDS[step.how].format(rows=step.rows, along=step.along)
    inside = [f"  {line}" for one in step.inside for line in _told(one)]
    return [f"axes {step.axes}: {how}{', too small for threads' * is_small}", *inside]


def plan(
    shape: Any,
    axes: Any = None,
    dtype: Any = np.complex128,
    *,
    kind: str = "fft",
    n: int | None = None,
    type: int = 2,
    norm: str | None = None,
    orthogonalize: bool | None = None,
    workers: int | None = None,
    order: str = "C",
) -> FFTPlan:
    """Decide how arrays of this shape and dtype are transformed.

    Args:
        shape: of the operand, as long as the transform is: nothing is padded.
        axes: of the transform; default all. The last listed is halved by "rfft".
        dtype: float32, float64, longdouble, or complex of these.
        kind: "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "idct", "dst", "idst".
        n: length of the last axis of the result of "irfft" and "hfft"; default 2 (m - 1).
        type: 1 to 4, of cosine and sine transforms.
        norm: "backward", "ortho" or "forward".
        orthogonalize: of cosine and sine transforms, as in `dct`.
        workers: threads; default those of the options.
        order: "C" or "F", how operands lie in memory.

    Returns:
        FFTPlan: `plan(x, out=None)` transforms; `describe()` says what will run. It may be passed as
        `plan=` to the function of its kind.

    >>> print(plan((4, 8)).describe())  # doctest: +ELLIPSIS
    fft of complex128[4,8] along (0, 1) -> complex128[4,8]
      engine scipy (...), ... thread..., result 512 B
      axes (0, 1): one call of the library, too small for threads
    """
    call = f"plan(kind={kind!r})"
    if not isinstance(kind, str) or kind not in KINDS:
        raise OptionError(f"{call}: the kinds are {', '.join(KINDS)}")
    word, forward = KINDS[kind]
    given: Shape = integers(shape, "shape", call)
    which, lengths = positions(None, axes, given, call)
    if any(size < 0 for size in given):
        raise ShapeError(f"{call}: shape {given} has a negative length")
    if not which or any(size < 1 for size in lengths):
        raise ShapeError(f"{call}: invalid number of data points {lengths} along axes {which}")
    dtype = _dtype(dtype, call)
    wanted = {"c2r": "FDG", "r2c": "fdg", "c2c": "fdgFDG"}.get(word, "fdg")
    if dtype.char not in wanted or not dtype.isnative:
        raise DTypeError(f"{call}: takes dtypes {', '.join(wanted)} (NumPy's letters), got {dtype}")
    last = _last(word, n, lengths[-1], call)
    if not isinstance(type, int) or type not in INVERSE:
        raise OptionError(f"{call}(type={type!r}): types are 1, 2, 3 and 4")
    if word in ("dct", "dst") and not forward:
        type = INVERSE[type]
    code = norm_code(norm, forward, call)
    what = Transform(word, forward, code, last, type, orthogonalize)  # type: ignore[arg-type]
    x = np.lib.stride_tricks.as_strided(np.empty(1, dtype), given, _strides(given, dtype, order))
    threads = num_threads() if workers is None else threads_of(workers, call)
    steps = planned(what, x, which, threads)
    return FFTPlan(kind, given, which, dtype, threads, x.strides, what, steps)


def _dtype(dtype: Any, call: str) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"{call}(dtype={dtype!r:.40}): no dtype of NumPy's") from None


def _last(word: str, n: Any, bins: int, call: str) -> int:
    """The length of the last axis of the result, where that is half a spectrum's."""
    if word != "c2r":
        if n is not None:
            raise CallError(f"{call}(n={n!r:.40}): n is for irfft and hfft; give the shape alone")
        return 0
    last = 2 * (bins - 1) if n is None else length(n, call)
    if last < 1 or last // 2 + 1 != bins:
        raise ShapeError(f"{call}: n={n} does not belong to {bins} bins")
    return last


def _strides(shape: Shape, dtype: np.dtype[Any], order: str) -> tuple[int, ...]:
    if order not in ("C", "F"):
        raise OptionError(f'plan(order={order!r}): give "C" or "F"')
    step, strides = dtype.itemsize, []
    for n in reversed(shape) if order == "C" else shape:
        strides.append(step)
        step *= max(1, n)
    return tuple(strides[::-1] if order == "C" else strides)


def check_plan(plan: Any, what: Transform, x: np.ndarray[Any, Any], axes: Axes, call: str) -> None:
    """Refuse a plan of another transform: of another kind, shape, dtype, axes or norm."""
    if not isinstance(plan, FFTPlan):
        raise Unsupported(
            f"{call}(plan={plan!r:.40}): passing a precomputed plan of another kind is not "
            f"supported; make one by einloom.fft.plan"
        )
    if plan.shape != x.shape or plan.dtype != x.dtype or plan.axes != axes:
        raise ShapeError(
            f"{call}(plan=...): the plan is for {ArraySpec(plan.dtype, plan.shape)} along "
            f"{plan.axes}, got {ArraySpec(x.dtype, x.shape)} along {axes}; plan for that"
        )
    if plan.what != what:
        raise CallError(
            f"{call}(plan=...): the plan is for {plan.kind} with other options than this call; make "
            f"one with the same norm, type and n"
        )
