"""An Expression is a plan and its executable: call it with arrays as often as wanted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._base.errors import (
    CallError,
    DTypeError,
    MemoryLimitError,
    OptionError,
    ShapeError,
    Unsupported,
    spoken_for,
)
from .._base.memory import available_bytes
from .._base.numbers import format_bytes
from ..backend.choice import check_together
from ..backend.cpu import cpu
from ..backend.door import as_ndarray, is_torch, to_torch
from ..backend.protocol import Backend
from ..backend.spec import LARGE, ArraySpec, Axes, Shape
from ..program.donation import check_donated
from ..program.executable import Executable
from ..program.ir import Program
from ..program.parts import split_constants
from ..program.sliced import ScaledSlices, SlicedExecutable
from .explanation import explained, explanation
from .lower import is_view
from .plan import Plan

if TYPE_CHECKING:
    from concurrent.futures import Future

ONE, ZERO = 1, 0  # the defaults of alpha and beta: the same objects when nothing is given
FEW = 64  # operands up to which a function that checks them is generated: Python compiles long ones slowly
RUNS, LONG = 4, 1.0  # runs that explain measures, unless one takes so many seconds
CHECK_FROM = 64 << 20
"""Bytes of intermediates and result below which a call does not ask the system how much memory is left."""


class Expression:
    """Contracts arrays of fixed shapes and dtypes along a plan.

    `expr(*arrays, out=None, alpha=1, beta=0, donate=())` computes alpha * contraction + beta * out; compiled
    with strip_exponent=True, `expr(*arrays, out=None)` is (mantissa, exponent), as of `einsum`.
    `donate` are positions of arrays that the caller gives away: results of steps, the last one too, may be
    written into their memory once they are read for the last time, which lowers the peak; what they hold
    afterwards is undefined. They are writeable, have no gaps between their elements and share memory with
    nothing else in the call; sliced expressions take none.
    Operands that were given as constants are left out of the call: what depends on them alone is computed
    when it is compiled. `plan`, `program`, `source` and `peak_bytes` show what runs; `explain` predicts, and
    with arrays measures, each instruction.
    Safe from several threads. Pickles; the program is compiled again on loading.
    """

    def __init__(
        self,
        plan: Plan,
        constants: Mapping[int, Any] | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.plan, self.backend = plan, backend or cpu()
        self._on_host = self.backend.name == "cpu"
        if plan.sliced and not self._on_host:
            raise Unsupported(
                f"expression: slices do not run on {self.backend.device} yet; leave out memory_limit, or "
                f"run on the CPU"
            )
        self.constants = dict(constants or {})
        self._free = [k for k in range(len(plan.dtypes)) if k not in self.constants]
        self._specs = tuple((plan.network.shapes[k], plan.dtypes[k]) for k in self._free)
        program = plan.program
        self._held: tuple[Any, ...] = ()  # what is left of the constants, taken after the operands
        if self.constants:
            before, program = split_constants(plan.program, frozenset(self.constants))
            self._held = _computed(before, program, plan, self.constants, self.backend)
        executable: Executable | SlicedExecutable
        if plan.sliced:
            kind = ScaledSlices if plan.strip_exponent else SlicedExecutable
            executable = kind(program, plan.assembly, self.backend)
            self._certain = executable.bytes.certain_bytes
            plain = False
        else:
            executable = Executable(program, self.backend, limit=plan.room)
            self._certain = executable.schedule.certain_bytes
            plain = (plan.order == "K" or executable.is_view) and not plan.strip_exponent
        self._executable = executable
        small = self._certain < CHECK_FROM
        self._plain = small and plain and bool(program.instructions) and self._on_host
        self._is_scalar = not plan.network.output_axes
        # for callers with nothing but arrays: the result, or None if these are not what it is made for
        self.fast: Callable[..., Any] | None = None
        if self._plain and 0 < len(self._specs) <= FEW:
            layouts = [plan.layouts[k] if plan.layouts else None for k in self._free]
            run = executable.run  # type: ignore[union-attr]
            view = None if plan.conj else _view(plan)
            self.fast = _checking(self._specs, layouts, run, self._held, self._is_scalar, view)

    @property
    def program(self) -> Program:
        """The program after all passes; with labels sliced, that of one slice."""
        return self._executable.program

    @property
    def source(self) -> str:
        """The generated Python function; with labels sliced, what runs once and what runs for each slice."""
        return self._executable.source

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of operands, intermediates, scratch and result, on as many threads as it is for."""
        if self.constants or self.plan.sliced:
            return self.plan.peak_bytes
        return self._executable.peak_bytes + self.plan.copied_bytes

    def __call__(
        self,
        *arrays: Any,
        out: Any = None,
        alpha: Any = 1,
        beta: Any = 0,
        donate: Sequence[int] = (),
    ) -> Any:
        if out is None and alpha is ONE and beta is ZERO and not donate and self.fast is not None:
            result = self.fast(*arrays)
            if result is not None:
                return result
        if isinstance(out, np.ndarray) or (out is not None and not self._on_host):
            self._check_out_dtype(out.dtype)
        plain = out is None and not donate and not _given(alpha, 1) and not _given(beta, 0)
        if plain and self._fits(arrays):
            return self.contract(arrays)
        with spoken_for("expression"), spoken_for("expression(donate", "program(donate"):
            return self._checked_call(arrays, out, alpha, beta, donate)

    def _checked_call(
        self, arrays: tuple[Any, ...], out: Any, alpha: Any, beta: Any, donate: Sequence[int]
    ) -> Any:
        given = check_donated("expression", donate, len(self._free)) if donate else ()
        if given:
            self._check_gives(given, arrays, out)
        if not self._on_host:
            check_together("expression", self.backend, arrays if out is None else (*arrays, out))
            self._check(list(arrays))
            return self.contract(arrays, out, alpha, beta)
        operands = [native(as_ndarray(x, "expression", k)) for k, x in enumerate(arrays)]
        self._check(operands)
        result = self.contract(operands, out, alpha, beta, given)
        return as_torch(result) if out is None and any(map(is_torch, arrays)) else result

    def submit(self, *arrays: Any, device: Any = "cpu", **keywords: Any) -> Future[Any]:
        """The same call by the thread of a device, "cpu:1" say: calls of one device are made in order.

        The arrays must stay as they are until it is done. While too many calls wait, this one waits.

        Returns:
            concurrent.futures.Future: the result or the exception; can be cancelled until the call begins.

        >>> import numpy as np
        >>> from einloom import compile
        >>> expr = compile("ij,jk->ik", (2, 30), (30, 2))
        >>> expr.submit(np.ones((2, 30)), np.ones((30, 2)), device="cpu:1").result()
        array([[30., 30.],
               [30., 30.]])
        """
        self._check_host("submit")
        from ..program.dispatch import submit  # few calls need it, and it loads concurrent.futures

        return submit(self, arrays, device, **keywords)

    def run_slices(
        self,
        *arrays: Any,
        executor: Any = None,
        slices_per_task: int | None = None,
        threads: int | None = None,
        retries: int = 2,
        in_flight: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Any:
        """The contraction as a sum over ranges of slices, which run wherever the executor lets them.

        What is the same in all slices is computed here; it is sent to the workers once, with the operands.
        Each range is added up by one worker, and the ranges are added up here, in their order: the bits
        depend on neither the number of workers nor on who is done first. A plan without sliced labels is
        one range.

        Args:
            arrays: as in a call.
            executor: None runs the ranges here, one after another. Else any executor of
                `concurrent.futures`, an `mpi4py.futures.MPIPoolExecutor`, a `dask.distributed.Client`; or a
                function that makes an executor, which is shut down at the end, and replaced by another when
                a worker's death has broken it.
            slices_per_task: slices in a range; None: as many as their predicted cost is worth, by the
                plan alone.
            threads: of einloom and BLAS in each task; None: 1, or without an executor as in a call.
            retries: times that a range is run again after its worker was lost.
            in_flight: ranges that may be under way at once, or wait for those before them to be added;
                None: four for each worker.
            checkpoint: a folder for what each range gave. A run with the same plan, operands and
                slices_per_task begins with what it finds there.

        Returns:
            What a call returns: an array, a number, or with strip_exponent (mantissa, exponent).

        Raises:
            ShapeError, DTypeError: the arrays are not those that the expression is compiled for.
            CallError, OptionError: an argument without meaning; a checkpoint of another run.
            WorkerLostError: workers were lost more often than `retries` allows, or the executor with them.

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from dataclasses import replace
        >>> import numpy as np
        >>> from einloom import compile, plan
        >>> expr = compile(replace(plan("ij,jk->ik", (2, 30), (30, 2)), sliced=(1,)))  # label j
        >>> with ThreadPoolExecutor(2) as pool:
        ...     expr.run_slices(np.ones((2, 30)), np.ones((30, 2)), executor=pool)
        array([[30., 30.],
               [30., 30.]])
        """
        self._check_host("run_slices")
        from . import slices  # few runs need it, and it loads concurrent.futures

        request = slices.Request.of(
            executor, slices_per_task, threads, retries, in_flight, checkpoint
        )
        with spoken_for("run_slices", "expression"):
            operands = [native(as_ndarray(x, "expression", k)) for k, x in enumerate(arrays)]
            self._check(operands)
        if self._certain >= CHECK_FROM and executor is None:
            held = sum(x.nbytes for x in (*operands, *self._held))
            check_memory(self._certain, held, "run_slices")
        plan, order = self.plan, order_of(self.plan.order, operands)
        result = slices.run(
            plan, self._executable, operands, self.constants, self._held, request, order
        )
        result = _owned(result, plan, order)
        return as_torch(result) if any(map(is_torch, arrays)) else result

    def contract(
        self,
        operands: Sequence[Any],
        out: Any = None,
        alpha: Any = 1,
        beta: Any = 0,
        donate: tuple[int, ...] = (),
    ) -> Any:
        """Run on checked numpy arrays; results of no axes are NumPy scalars, as np.einsum's are."""
        plain = self._plain and out is None and not donate
        if plain and not _given(alpha, 1) and not _given(beta, 0):
            result = self._executable.run(*operands, *self._held)  # type: ignore[union-attr]
            return result[()] if self._is_scalar else result
        operands = [*operands, *self._held]
        if not self._on_host:
            from .on_device import deliver_on  # what runs on the host needs none of it

            return deliver_on(self._executable, self.plan, operands, out, alpha, beta)  # type: ignore[arg-type]
        needed = self._certain
        if donate and not self._executable.parts:  # type: ignore[union-attr]
            needed = min(needed, self._executable.donation(donate).certain_bytes)  # type: ignore[union-attr]
        if needed >= CHECK_FROM:
            held = sum(x.nbytes for x in operands)
            check_memory(needed - getattr(out, "nbytes", 0), held)
        return deliver(self._executable, self.plan, operands, out, alpha, beta, donate)

    def explain(self, *arrays: Any) -> str:
        """A line for each instruction that runs, where a fused group is one: op, engine, result, its bytes,
        bytes that are copied into another order before or after, and the time predicted by the cost model;
        with arrays the measured time too, one instruction after another. The last line names what takes most
        of the time, and why; one before it tells what runs side by side in a call.

        With labels sliced it is the first slice, after what is the same in all of them.
        """
        seconds: list[float] = []
        if arrays:
            self._check_host("explain")
            operands = [native(as_ndarray(x, "explain", k)) for k, x in enumerate(arrays)]
            self._check(operands)
            seconds = self._measured(operands)
        steps = [
            explained(program, ins, self._executable.backend)
            for program in self._executable.running
            for ins in program.instructions
        ]
        notes = [f"the first of {self.plan.n_slices} slices"] if self.plan.sliced else []
        parts = [] if self.plan.sliced else self._executable.parts  # type: ignore[union-attr]
        if parts:
            counts = ", ".join(str(len(part.steps)) for part in parts)
            notes.append(
                f"in a call {len(parts)} parts, of {counts} of these instructions, run side by side on one "
                f"thread each"
            )
        return explanation(steps, seconds, notes, self.peak_bytes)

    def _measured(self, operands: list[Any]) -> list[float]:
        """Seconds of each instruction, the least of a few runs, or of two long ones: the first finds cold
        caches, and kernels that are not compiled."""
        runs: list[list[float]] = []
        while len(runs) < 2 or (len(runs) < RUNS and sum(runs[-1]) < LONG):
            runs.append([])
            self._executable.profile(*operands, *self._held, seconds=runs[-1])
        return [min(of_one) for of_one in zip(*runs, strict=True)]

    def _check_gives(self, donate: tuple[int, ...], arrays: tuple[Any, ...], out: Any) -> None:
        if self.plan.sliced or not self._on_host:
            why = "slices read operands to the end" if self.plan.sliced else "not on a GPU yet"
            raise Unsupported(f"expression(donate=...): {why}; leave donate out")
        if isinstance(out, np.ndarray) and len(arrays) == len(self._free):
            for k in donate:
                if isinstance(arrays[k], np.ndarray) and np.may_share_memory(arrays[k], out):
                    raise CallError(
                        f"expression(donate=...): operand {k} shares memory with out; give away only what "
                        f"nothing else in the call looks at"
                    )

    def _check_host(self, call: str) -> None:
        if not self._on_host:
            raise Unsupported(
                f"{call}: this expression runs on {self.backend.device}, where there is no {call} yet; call "
                f"it with its arrays, or compile it for the CPU"
            )

    def _check_out_dtype(self, dtype: np.dtype[Any]) -> None:
        """Refuse an `out` that would lose what the result's dtype holds."""
        if not np.can_cast(self.plan.dtype, dtype, "safe"):
            raise DTypeError(
                f"expression(out=...): out has dtype {dtype}, which cannot hold the result's "
                f"{self.plan.dtype} safely; pass an out of that dtype, or compile with dtype="
            )

    def _fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether these are plain arrays of the right shapes and dtypes, told quickly."""
        if len(arrays) != len(self._specs):
            return False
        if not self._on_host:
            return False
        for x, (shape, dtype) in zip(arrays, self._specs, strict=True):
            if type(x) is not np.ndarray or x.shape != shape or x.dtype != dtype:
                return False
        return True

    def _check(self, operands: list[Any]) -> None:
        if len(operands) != len(self._free):
            raise ShapeError(f"expression: takes {len(self._free)} arrays, got {len(operands)}")
        for position, x, (shape, dtype) in zip(self._free, operands, self._specs, strict=True):
            if x.shape != shape:
                raise ShapeError(
                    f"expression: operand {position} has shape {x.shape}, compiled for {shape}; "
                    f"compile again for other shapes"
                )
            if x.dtype != dtype:
                raise DTypeError(
                    f"expression: operand {position} has dtype {x.dtype}, compiled for {dtype}; "
                    f"convert it (x.astype), or compile again for other dtypes"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.plan, self.constants, self.backend.device)

    def __repr__(self) -> str:
        return f"<Expression of {len(self._free)} arrays, {len(self.program.instructions)} instructions>"


def _computed(
    before: Program, program: Program, plan: Plan, constants: Mapping[int, Any], backend: Backend
) -> tuple[Any, ...]:
    """What `program` takes behind its operands: constants, and what `before` makes of constants; uploaded
    once, here."""
    values = {slot: constants[at] for at, slot in enumerate(plan.program.inputs) if at in constants}
    if backend.name != "cpu":
        values = {slot: backend.to_device(x) for slot, x in values.items()}
    if before.instructions:
        made = Executable(before, backend, fork=False).run(
            *(values[slot] for slot in before.inputs)
        )
        values |= zip(before.outputs, made if len(before.outputs) > 1 else (made,), strict=True)
    held = tuple(values[slot] for slot in program.inputs[len(plan.dtypes) - len(constants) :])
    if backend.name == "cpu":
        for x in held:
            x.flags.writeable = False
    return held


def _view(plan: Plan) -> tuple[Shape, Shape] | None:
    """Shape and strides of a view of one operand that lies in memory without gaps; None if the result is no
    view, or of a dtype whose memory Python's buffers do not show."""
    network = plan.network
    if not is_view(network) or plan.dtype.kind not in "biufc" or 0 in network.extents:
        return None
    if plan.dtypes != (plan.dtype,):
        return None  # it is converted
    (term,), (shape,) = network.terms, network.shapes
    steps = dict.fromkeys(term, 0)
    for label, stride in zip(term, _strides(shape, plan.dtype.itemsize, None), strict=True):
        steps[label] += stride
    open_ = network.output_axes
    return tuple(network.extents[x] for x in open_), tuple(steps[x] for x in open_)


def _checking(
    specs: Sequence[tuple[Shape, np.dtype[Any]]],
    layouts: Sequence[Axes | None],
    run: Callable[..., Any],
    held: Sequence[Any],
    is_scalar: bool,
    view: tuple[Shape, Shape] | None,
) -> Callable[..., Any]:
    """`run` for plain arrays of exactly these shapes and dtypes, with `held` behind them; large ones in the
    order in memory that was planned for. None for any others, told quickly: one generated expression takes
    half the time of a loop over the operands. A `view` of an operand without gaps is made in one call."""
    names = [f"x{k}" for k in range(len(specs))]
    scope: dict[str, Any] = {"ndarray": np.ndarray, "run": run}
    tests = ["not more"]
    for k, (shape, dtype) in enumerate(specs):
        # arrays of one dtype share one object as a rule, which is not that of newbyteorder("=")
        shared = np.dtype(dtype.char) if dtype.char in "?bBhHiIlLqQefdgFDG" else dtype
        scope |= {f"shape{k}": shape, f"dtype{k}": shared if shared == dtype else dtype}
        tests.append(f"type(x{k}) is ndarray and x{k}.shape == shape{k} and x{k}.dtype is dtype{k}")
        if math.prod(shape) * dtype.itemsize >= LARGE:
            scope[f"strides{k}"] = _strides(shape, dtype.itemsize, layouts[k])
            tests.append(f"x{k}.strides == strides{k}")
    scope |= {f"held{k}": x for k, x in enumerate(held)}
    arguments = ", ".join([*names, *(f"held{k}" for k in range(len(held)))])
    views = []
    if view is not None:
        (shape, dtype), (scope["shape"], scope["steps"]) = specs[0], view
        scope["strides"] = _strides(shape, dtype.itemsize, None)
        views = [
            "        if x0.strides == strides:",
            "            return ndarray(shape, dtype0, x0, 0, steps)",
        ]
    lines = [
        f"def checked({', '.join(f'{name}=None' for name in names)}, *more):",
        f"    if {' and '.join(tests)}:",
        *views,
        f"        return run({arguments}){'[()]' if is_scalar else ''}",
        "    return None",
    ]
    exec("\n".join(lines), scope)
    function: Callable[..., Any] = scope["checked"]
    return function


def _strides(shape: Shape, itemsize: int, layout: Axes | None) -> Shape:
    """In bytes, of an array without gaps whose axes lie in this order."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(layout or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def _restored(plan: Plan, constants: dict[int, Any], device: str = "cpu") -> Expression:
    from ..backend import get

    for array in constants.values():
        array.flags.writeable = False
    return Expression(plan, constants, get(device))


def native(x: Any) -> Any:
    """x itself, or a copy in this machine's byte order."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def deliver(
    executable: Executable | SlicedExecutable,
    plan: Plan,
    operands: Sequence[Any],
    out: Any,
    alpha: Any,
    beta: Any,
    donate: tuple[int, ...] = (),
) -> Any:
    """Run and hand over: alpha * result + beta * out, into `out` when given."""
    if donate:
        executable = _Giving(executable, donate)  # type: ignore[assignment]
    if plan.strip_exponent:
        return _deliver_scaled(executable, plan, operands, out, alpha, beta)
    alpha, beta = factors(plan, alpha, beta)
    scaled = alpha != 1 or beta != 0
    if out is None:
        if scaled and beta != 0:
            raise OptionError(
                "einsum(beta=...): beta scales `out`; give out= as well, or leave beta 0"
            )
        if isinstance(executable, SlicedExecutable):
            result = executable(
                *operands, alpha=alpha if scaled else 1, order=order_of(plan.order, operands)
            )
            return result if result.ndim else result[()]
        result = executable(*operands)
        if scaled:
            target = np.empty_like(result) if executable.is_view else result
            result = executable.backend.assign(target, result, alpha)
        if result.ndim == 0:
            return result[()]
        if plan.order != "K" and not executable.is_view:  # a view keeps its order, as NumPy's does
            result = in_order(executable.backend, result, order_of(plan.order, operands))
        # a program without instructions returns its operand: give a new view, as NumPy does
        return result.view() if any(result is x for x in operands) else result
    shape = tuple(plan.network.extents[label] for label in plan.network.output_axes)
    check_out(out, shape)
    overlaps = any(np.may_share_memory(out, x) for x in operands)
    if isinstance(executable, SlicedExecutable):
        if not overlaps:
            return executable(
                *operands, out=out, alpha=alpha if scaled else 1, beta=beta if scaled else 0
            )
    elif not scaled and not overlaps and out.dtype == plan.dtype:
        return executable(*operands, out=out)
    result = executable(*operands)
    if overlaps and np.may_share_memory(out, result):
        result = result.copy()  # a view of an operand: it must not change while it is read
    return executable.backend.assign(out, result, alpha, beta)


class _Giving:
    """An executable whose calls give some of their arrays away."""

    def __init__(self, executable: Any, donate: tuple[int, ...]) -> None:
        self._executable, self._donate = executable, donate
        self.backend, self.is_view = executable.backend, executable.is_view

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        return self._executable(*arrays, out=out, donate=self._donate)


def _deliver_scaled(
    executable: Executable | SlicedExecutable,
    plan: Plan,
    operands: Sequence[Any],
    out: Any,
    alpha: Any,
    beta: Any,
) -> tuple[Any, float]:
    """(mantissa, exponent), the mantissa in `out` when given."""
    if _given(alpha, 1) or _given(beta, 0):
        raise OptionError(
            "einsum(alpha=..., beta=...): with strip_exponent=True nothing is scaled or added to; "
            "multiply the mantissa yourself"
        )
    if out is not None:
        check_out(out, tuple(plan.network.extents[label] for label in plan.network.output_axes))
    mantissa, exponent = executable(*operands)
    if out is not None:
        mantissa = executable.backend.assign(out, mantissa)
    elif mantissa.ndim == 0:
        mantissa = mantissa[()]
    elif plan.order != "K":
        mantissa = np.asarray(mantissa, order=order_of(plan.order, operands))  # type: ignore[call-overload]
    return mantissa, float(exponent)


def _owned(result: Any, plan: Plan, order: str) -> Any:
    """What slices gave as a call would: numbers without axes, the order asked for, a float exponent."""
    mantissa, exponent = result if plan.strip_exponent else (result, None)
    if mantissa.ndim == 0:
        mantissa = mantissa[()]
    elif plan.order != "K":
        mantissa = in_order(cpu(), mantissa, order)
    return mantissa if exponent is None else (mantissa, float(exponent))


def as_torch(result: Any) -> Any:
    """A result as a torch tensor; of a mantissa and its exponent, the mantissa."""
    return (to_torch(result[0]), result[1]) if type(result) is tuple else to_torch(result)


def order_of(order: str, operands: Sequence[Any]) -> str:
    """The memory order of a new result; "A" is "F" if all operands are Fortran-ordered."""
    if order == "A":
        fortran = all(x.flags.f_contiguous and not x.flags.c_contiguous for x in operands)
        return "F" if fortran else "C"
    return "C" if order == "K" else order


def in_order(backend: Backend, x: Any, order: str) -> Any:
    """x itself, or a copy, in row-major or column-major order."""
    if x.flags.f_contiguous if order == "F" else x.flags.c_contiguous:
        return x
    axes = tuple(range(x.ndim))
    layout = axes[::-1] if order == "F" else None
    return backend.assign(backend.empty(ArraySpec(x.dtype, x.shape, layout)), x)


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    """Refuse an `out` that is no writeable array of the result's shape."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise DTypeError(f"einsum(out=...): out must be a numpy.ndarray, got {type(out).__name__}")
    if out.shape != shape:
        raise ShapeError(
            f"einsum(out=...): out has shape {out.shape}, the result has shape {shape}"
        )
    if not out.flags.writeable:
        raise ShapeError("einsum(out=...): out is read-only; pass a writeable array")


def check_memory(
    needed: int, held: int, call: str = "einsum", what: str = "intermediates and result"
) -> None:
    """Refuse what cannot fit beside the arrays that the caller already holds."""
    available = available_bytes()
    if available is not None and needed > available:
        if needed <= available + cpu().buffer_info().kept_bytes:
            cpu().reclaim()  # what the buffer cache keeps makes room
            return
        raise MemoryLimitError(
            f"{call}: the predicted peak of {what} is {format_bytes(needed)}, but "
            f"{format_bytes(available)} are available. Try memory_limit={available + held} (bytes, "
            f"operands included) to ask for a plan that fits, a smaller dtype, or a better path"
        )


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3, "O": 4}


def factors(plan: Plan, alpha: Any, beta: Any) -> tuple[Any, Any]:
    """alpha and beta as numbers that the result's dtype holds."""
    if _given(alpha, 1) or _given(beta, 0):
        return _scalar(alpha, plan.dtype, "alpha"), _scalar(beta, plan.dtype, "beta")
    return ONE, ZERO


def _given(value: Any, default: int) -> bool:
    return value is not default and not (type(value) in (int, float) and value == default)


def _scalar(value: Any, dtype: np.dtype[Any], name: str) -> Any:
    """alpha or beta as a number that the result's dtype holds: 0 and 1 of any type are plain."""
    try:
        array = np.asarray(value)
        if array.ndim != 0 or array.dtype.kind not in "biufcOV":
            raise TypeError
    except (TypeError, ValueError):
        raise DTypeError(f"einsum({name}=...): give a number, got {type(value).__name__}") from None
    for plain in (0, 1):  # they leave `out` unread, or the result as it is
        if value == plain:
            return plain
    try:
        if dtype.kind in _RANK and _RANK.get(array.dtype.kind, 2) > _RANK[dtype.kind]:
            raise TypeError
        np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(
            f"einsum({name}={value!r:.60}): the result has dtype {dtype}, which cannot hold that "
            f"factor; pass dtype= to compute in a wider one"
        ) from None
    return value
