"""The Backend protocol over numpy.ndarray."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..._base.caches import Quick
from ..._base.errors import (
    CallError,
    ConversionError,
    MemoryLimitError,
    OptionError,
    ShapeError,
    Unsupported,
)
from ..._base.numbers import format_bytes
from ..._base.options import PROVIDERS, get_options, num_threads, options
from ..catalogue import CATALOGUE, GATHERS, Attrs, OpRow, infer
from ..door import as_ndarray
from ..dtypes import NAMES
from ..fusion import FusionPlan, ProductFusionPlan
from ..protocol import BufferInfo, Clock, Kernel, View
from ..rules import check_attrs, freeze, told_apart
from ..sequence import takes
from ..spec import ArraySpec, Axes, Shape, compute_dtype, dtype_from_name, dtype_name
from . import structure, sum_product
from .blas import ONE_BLAS_THREAD
from .buffers import BUFFERS, empty_as, in_layout
from .cast import bind_cast, evaluate_cast
from .clock import HostClock
from .contraction import (
    bind_matmul,
    bind_sum_product,
    engine_of,
    matmul_attrs,
    uses_threads,
)
from .elementwise import BLOCK, EVALUATE, ONE_STEP, TEMPORARIES, bind_elementwise
from .fused import BLOCK as FUSED_BLOCK
from .fused import bind_fused, fused_scratch_bytes
from .products import bind_product, bind_product_added, product_scratch_bytes
from .reduce import bind_argument, bind_reduce, reduce_scratch_bytes, widened_bytes
from .scaling import bind_ldexp, bind_normal_exponent, normal_exponent_scratch_bytes
from .strided import MOST_AXES, overlaps_itself
from .threads import parallel_for, stay
from .workspaces import WORKSPACES


def _later(module: str, name: str) -> Any:
    """A function of a neighbour that few processes need: its module is loaded at the first call."""

    @cache
    def function() -> Any:
        return getattr(import_module(f".{module}", __package__), name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        return function()(*arguments, **keywords)

    return call


def _bind_fft(op: str) -> structure.Binder:
    return lambda *specs: _later("fft_ops", "bind_fft")(op)(*specs)


FFTS = ("fft", "ifft", "rfft", "irfft")
BINDERS: dict[str, structure.Binder] = {
    **{op: bind_elementwise(evaluate) for op, evaluate in EVALUATE.items()},
    "identity": structure.bind_identity,
    "conj": structure.bind_conj,
    "reshape": structure.bind_reshape,
    "transpose": structure.bind_transpose,
    "broadcast_in_dim": structure.bind_broadcast_in_dim,
    "slice": structure.bind_slice,
    "slice_at": structure.bind_slice_at,
    "reverse": structure.bind_reverse,
    "pad": structure.bind_pad,
    "concatenate": structure.bind_concatenate,
    "split": structure.bind_split,
    "squeeze": structure.bind_squeeze,
    "expand_dims": structure.bind_expand_dims,
    "extract_diagonal": structure.bind_extract_diagonal,
    "embed_diagonal": structure.bind_embed_diagonal,
    "tril": structure.bind_triangle(upper=False),
    "triu": structure.bind_triangle(upper=True),
    "convert": bind_cast,
    "cast": bind_cast,
    "copy": structure.bind_copy,
    "contiguous": structure.bind_contiguous,
    **{
        op: bind_reduce(op)
        for op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean")
    },
    "argmax": bind_argument(np.argmax),
    "argmin": bind_argument(np.argmin),
    "normal_exponent": bind_normal_exponent,
    "ldexp": bind_ldexp,
    "dot_general": bind_product,
    "dot_general_add": bind_product_added,
    "matmul": bind_matmul,
    "sum_product": bind_sum_product,
    "associative_scan": _later("scan", "bind_scan"),
    "sort": _later("order", "bind_sort"),
    "argsort": _later("order", "bind_argsort"),
    "take": _later("taking", "bind_take"),
    "take_along_axis": _later("taking", "bind_take_along_axis"),
    **dict.fromkeys(GATHERS, _later("indexing", "bind_gather")),
    "scatter": _later("scattering", "bind_scatter"),
    "scatter_along_axis": _later("scattering", "bind_scatter_along_axis"),
    "dynamic_slice": _later("windows", "bind_dynamic_slice"),
    "dynamic_update_slice": _later("windows", "bind_dynamic_update_slice"),
    "unfold": _later("windows", "bind_unfold"),
    "fold": _later("windows", "bind_fold"),
    "threefry2x32": _later("threefry", "bind_threefry"),
    "constant": structure.bind_constant,
    "shape_of": structure.bind_shape_of,
    "dynamic_truncate": structure.bind_dynamic_truncate,
    "pad_to_match": structure.bind_pad_to_match,
    **{op: _bind_fft(op) for op in FFTS},
}
WITHOUT: dict[str, frozenset[str]] = {  # dtypes that a row allows, but no kernel of the CPU takes
    **{
        op: frozenset(("object",))
        for op in (
            "remainder", "reciprocal", "sign", "real", "imag", "sqrt", "floor", "ceil", "trunc",
            "round", "round_half_away",
        )
    },
    "erf": frozenset(("longdouble",)),
}  # fmt: skip
MOST_BYTES = int(np.iinfo(np.intp).max)  # what offsets can address
MOST_WORK: Any = (
    10**5
)  # candidates in the search for an element that two arrays share; well below 0.1 s
TOO_HARD = getattr(np, "exceptions", np).TooHardError
INDEXING = frozenset(
    (
        *("take", "take_along_axis", *GATHERS, "scatter", "scatter_along_axis", "sort", "argsort"),
        *("associative_scan", "unfold", "fold", "threefry2x32"),
    )
)  # what scratch.py knows about
PRODUCTS = ("dot_general", "dot_general_add", "matmul")
MOVES = frozenset(
    (
        *("identity", "select", "conj", "shape_of", "dynamic_truncate", "pad_to_match", *GATHERS),
        *("take", "take_along_axis", "dynamic_slice", "dynamic_update_slice", "unfold"),
    )
)  # beside the structural ones; no arithmetic


class CpuBackend:
    """Arrays are numpy.ndarray of any strides and native byte order.

    `threads` and `provider` are this instance's own; None means those of the options in force.
    """

    name = "cpu"
    device = "cpu"

    def __init__(self, threads: int | None = None, provider: str | None = None) -> None:
        if threads is not None and (type(threads) is not int or threads < 1):
            raise OptionError(f"cpu(threads={threads!r}): give a positive integer, or None")
        if provider is not None and provider not in PROVIDERS:
            raise OptionError(
                f"cpu(provider={provider!r}): give one of {', '.join(PROVIDERS)}, or None"
            )
        self.threads, self.provider = threads, provider

    def bind(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...],
        own_threads: bool = False,
    ) -> Kernel:
        binder = BINDERS.get(op)
        if binder is None:
            raise Unsupported(
                f"op {op!r} has no kernel on the CPU; those that have: {', '.join(BINDERS)}"
            )
        row = CATALOGUE[op]
        for spec in inputs:
            self._check_dtype(row, spec)
        if any(len(spec.shape) > MOST_AXES for spec in outputs):
            raise Unsupported(
                f"op {op!r} on the CPU: the result has {len(outputs[0].shape)} axes, NumPy's arrays "
                f"have at most {MOST_AXES}; reshape neighbouring axes into one first"
            )
        if op not in PRODUCTS:
            return self._own(binder(attrs, inputs, outputs[0]))
        more = {"own_threads": own_threads}
        with self._provided():
            return self._own(binder(attrs, inputs, outputs[0], **more))

    def uses_threads(
        self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]
    ) -> bool:
        row = CATALOGUE[op]
        if row.is_view or (self.threads or num_threads()) == 1:
            return False
        if op in PRODUCTS:
            with self._provided():
                return uses_threads(attrs or matmul_attrs(inputs), inputs[:2], outputs[0])
        return max(x.size for x in (*inputs, *outputs)) >= max(1, get_options().small)

    def at_once(self) -> int:
        return self.threads or num_threads()

    def alone(self) -> CpuBackend:
        return self if self.threads is None else CpuBackend(1, self.provider)

    def together(self, call: Callable[[int], None], n: int) -> None:
        contexts = [copy_context() for _ in range(n)]  # what the caller has set holds for all calls

        def one(k: int) -> None:
            with options(threads=1), np.errstate(all="ignore"):
                call(k)

        def piece(start: int, stop: int) -> None:
            with stay():
                for k in range(start, stop):
                    contexts[k].run(one, k)

        with ONE_BLAS_THREAD:
            parallel_for(piece, n, min(n, self.at_once()))

    def _check_dtype(self, row: OpRow, spec: ArraySpec) -> None:
        name = dtype_name(spec.dtype)
        if name in WITHOUT.get(row.name, ()):
            raise Unsupported(
                f"op {row.name!r} on the CPU does not take {name}; convert the operands first "
                f"(float16 and bfloat16: to float32)"
            )
        moves = row.group == "structural" or row.name in MOVES
        if not moves and not spec.dtype.isnative:
            raise Unsupported(
                f"op {row.name!r} on the CPU does not take {spec.dtype.str} (foreign byte order); "
                f'convert the operands first: x.astype(x.dtype.newbyteorder("="))'
            )

    def fuse(self, plan: FusionPlan) -> Kernel | None:
        if isinstance(plan, ProductFusionPlan):
            plan.check()
            if (self.provider or get_options().provider) == "plain" and not get_options().engine:
                return None
            kernel = (
                _later("lanes", "bind_lanes")(plan)
                if plan.lanes
                else _later("sequence", "bind_sequence")(plan)
            )
            return None if kernel is None else self._own(kernel)
        values = plan.values()
        for step in plan.steps:
            for operand in step.operands:
                self._check_dtype(CATALOGUE[step.op], values[operand])
        kernel = bind_fused(plan)
        return None if kernel is None else self._own(kernel)

    def in_sequence(self, attrs: Attrs, lhs: ArraySpec, rhs: ArraySpec, out: ArraySpec) -> bool:
        if (self.provider or get_options().provider) == "plain" and not get_options().engine:
            return False
        return takes(attrs, lhs, rhs, out)

    def _own(self, kernel: Kernel) -> Kernel:
        """A kernel that runs on as many threads as this instance says; nothing is set where they are set."""
        threads = self.threads
        if threads is None:
            return kernel

        def run(*arrays: Any, **keywords: Any) -> Any:
            if get_options().threads == threads:
                return kernel(*arrays, **keywords)
            with options(threads=threads):
                return kernel(*arrays, **keywords)

        return run

    @contextmanager
    def _provided(self) -> Iterator[None]:
        """Products are bound for this instance's provider."""
        if self.provider in (None, get_options().provider):
            yield
            return
        with options(provider=self.provider):
            yield

    @contextmanager
    def session(self, threads: int | None = None) -> Iterator[CpuBackend]:
        with options(**({} if threads is None else {"threads": threads})):
            yield self if threads is None else CpuBackend(threads, self.provider)

    def engine(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> str:
        if op in PRODUCTS:
            with self._provided():
                return engine_of(attrs or matmul_attrs(inputs), inputs[:2], *outputs)
        return "view" if CATALOGUE[op].is_view else op

    def scratch_bytes(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> int:
        threads = self.threads or num_threads()
        if op in PRODUCTS:
            (output,) = outputs or (None,)
            with self._provided():
                return product_scratch_bytes(attrs or matmul_attrs(inputs), inputs, output, threads)
        if op == "sum_product":
            return sum_product.scratch_bytes(attrs, inputs)
        if (op in EVALUATE or op in ("convert", "cast")) and _needs_temporaries(op, attrs, inputs):
            x = inputs[-1]
            if x.size < get_options().small:  # one block
                return TEMPORARIES * x.size * max(16, x.dtype.itemsize)
            return 2 * TEMPORARIES * BLOCK * threads  # a temporary may be twice as wide
        if op == "reshape":  # with `out`, what is no view is copied twice
            return inputs[0].nbytes
        if op.startswith("reduce_"):
            return reduce_scratch_bytes(inputs[0], attrs["axes"], threads)
        if op in ("argmax", "argmin"):
            line = inputs[0].shape[attrs["axis"]] * inputs[0].dtype.itemsize
            return threads * (BLOCK + line) + widened_bytes(inputs[0])
        if op == "normal_exponent":
            return normal_exponent_scratch_bytes(inputs[0], threads)
        if op == "ldexp" and compute_dtype(inputs[0].dtype) != inputs[0].dtype:
            return threads * TEMPORARIES * BLOCK
        if op in FFTS:
            return _later("fft_ops", "fft_scratch_bytes")(op, attrs, inputs[0], threads)
        if op in INDEXING:
            return _later("scratch", "indexing_scratch_bytes")(op, attrs, inputs, outputs, threads)
        return 0

    def fused_scratch_bytes(self, plan: FusionPlan, foreign: Axes = ()) -> int:
        if isinstance(plan, ProductFusionPlan):
            # of operands whose strides are no whole elements
            threads = self.threads or num_threads()
            if not plan.lanes:
                return _later("sequence", "sequence_bytes")(plan, threads, foreign)
            copies = sum(plan.inputs[k].nbytes for k in foreign)
            return _later("lanes", "lanes_bytes")(plan, threads) + copies
        values = plan.values()
        each = (
            self.scratch_bytes(step.op, step.attrs, tuple(values[k] for k in step.operands))
            for step in plan.steps
        )
        temporaries = max(each, default=0)
        threads = self.threads or num_threads()
        return fused_scratch_bytes(plan, foreign, FUSED_BLOCK // BLOCK * temporaries, threads)

    def capabilities(self) -> dict[str, frozenset[str]]:
        return {
            op: frozenset(
                name
                for kind in sorted(CATALOGUE[op].dtypes)
                for name in NAMES.get(kind, ())
                if name not in WITHOUT.get(op, ())
            )
            for op in BINDERS
        }

    def apply(self, op: str, attrs: Attrs, *arrays: Any, out: Any = None) -> Any:
        for position, x in enumerate(arrays):
            if not isinstance(x, (np.ndarray, np.generic)):
                raise ConversionError(f"{op}: operand {position} is {_no_array(x)}")
        arrays = tuple(as_ndarray(x, op, position) for position, x in enumerate(arrays))
        kernel, outputs = self._bound(op, attrs, arrays)
        if out is not None:
            _check_out(op, outputs, arrays, out)
        try:
            return kernel(*arrays) if out is None else kernel(*arrays, out=out)
        except MemoryLimitError:
            raise
        except MemoryError as error:
            size = format_bytes(sum(spec.nbytes for spec in outputs))
            raise MemoryLimitError(
                f"{op}: no memory for the result {', '.join(map(str, outputs))} of {size} or for "
                f"what computes it ({error}); make it smaller, or work on parts of it"
            ) from error

    def _bound(
        self, op: str, attrs: Attrs, arrays: tuple[Any, ...]
    ) -> tuple[Kernel, tuple[ArraySpec, ...]]:
        """The kernel for operands like these and the specs of its results, kept for the next call."""
        check_attrs(op, attrs)
        attrs = {name: freeze(value) for name, value in attrs.items()}
        specs = tuple((x.dtype, x.shape) for x in arrays)
        now = get_options()
        own = (type(self), self.threads, self.provider)
        how = (*own, now.threads, now.small, now.engine, now.provider)
        key: Any = (op, tuple(map(told_apart, attrs.items())), specs, how)
        try:
            found = _BOUND.items.get(key)
        except TypeError:  # an attribute that cannot be hashed, which most ops refuse
            key = found = None
        if found is not None:
            _BOUND.hits += 1
            return found
        inputs = tuple(ArraySpec(*spec) for spec in specs)
        outputs = infer(op, attrs, inputs)
        for spec in outputs:
            _check_addressable(op, spec)
        made = self.bind(op, attrs, inputs, outputs), outputs
        _BOUND.misses += 1
        if key is not None:
            _BOUND.put(key, made)
        return made

    def empty(self, spec: ArraySpec) -> Any:
        return empty_as(spec)

    def array_at(self, buffer: Any, offset: int, spec: ArraySpec) -> Any:
        return in_layout(spec, lambda shape: np.ndarray(shape, spec.dtype, buffer, offset))

    def full(self, shape: Shape, value: Any, dtype: Any) -> Any:
        return np.full(shape, value, dtype)

    def assign(self, target: Any, source: Any, alpha: Any = 1, beta: Any = 0) -> Any:
        if source.shape != target.shape:
            raise ShapeError(
                f"assign: source has shape {source.shape}, target {target.shape}; broadcast it first"
            )
        with np.errstate(all="ignore"):
            return _assigned(target, source, alpha, beta)

    def gemm_batch(
        self,
        pairs: Sequence[tuple[Any, Any]],
        work: Sequence[int],
        out: Sequence[Any] | None = None,
        chains: Sequence[Sequence[int]] = (),
        alpha: Any = 1,
        beta: Any = 0,
    ) -> list[Any]:
        threads = self.threads or num_threads()
        with self._provided():
            return _later("gemm_batch", "gemm_batch")(
                self, pairs, work, out, chains, alpha, beta, threads
            )

    def view(self, array: Any) -> View:
        if not isinstance(array, np.ndarray):
            raise ConversionError(f"view: the argument is {_no_array(array)}")
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        size = max(1, array.itemsize)
        if any(n % size for n in (*array.strides, start)):
            raise ConversionError(
                f"view: strides {array.strides} from byte {start} on are no whole elements of {size} "
                f"bytes, as those of a field of a record may be; pass a copy"
            )
        return View(array.shape, tuple(n // size for n in array.strides), start // size)

    def placement(self, array: Any) -> str:
        if isinstance(array, np.ndarray):
            return self.device
        raise ConversionError(f"placement: the argument is {_no_array(array)}")

    def to_device(self, array: Any) -> Any:
        return np.asarray(array)

    def to_host(self, array: Any) -> Any:
        return array

    def clock(self) -> Clock:
        return HostClock()

    def buffer_info(self) -> BufferInfo:
        return BUFFERS.info()

    def reclaim(self) -> int:
        return BUFFERS.clear() + WORKSPACES.clear()

    def __repr__(self) -> str:
        own = {"threads": self.threads, "provider": self.provider}
        return f"cpu({', '.join(f'{k}={v!r}' for k, v in own.items() if v is not None)})"


_BOUND: Quick[tuple[Kernel, tuple[ArraySpec, ...]]] = Quick("eager ops", 512)


def _needs_temporaries(op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> bool:
    if op in ("convert", "cast"):
        return evaluate_cast(inputs[0].dtype, dtype_from_name(attrs["dtype"]))[1]
    return EVALUATE[op] not in ONE_STEP or any(compute_dtype(x.dtype) != x.dtype for x in inputs)


def _check_addressable(op: str, spec: ArraySpec) -> None:
    """As NumPy counts bytes: without the axes of size 0, which leave nothing to address."""
    total = max(1, spec.dtype.itemsize) * math.prod(n for n in spec.shape if n)
    if total > MOST_BYTES:
        raise ShapeError(
            f"{op}: the result {spec} of {format_bytes(total)} is more than an address can reach "
            f"({format_bytes(MOST_BYTES)}); make it smaller"
        )


@cache
def _default() -> CpuBackend:
    return CpuBackend()


def cpu(threads: int | None = None, provider: str | None = None) -> CpuBackend:
    """The CPU backend; with `threads` or `provider`, an instance with its own.

    Args:
        threads: of its kernels; None: as many as the options in force say.
        provider: "blas", "native" or "plain", as in `options`; None: that of the options in force when an op
            is bound.

    Raises:
        OptionError: another number of threads or provider.

    >>> import numpy as np
    >>> cpu(threads=2).apply("add", {}, np.arange(3.0), np.ones(3))
    array([1., 2., 3.])
    """
    is_default = threads is None and provider is None
    return _default() if is_default else CpuBackend(threads, provider)


def _check_out(op: str, outputs: tuple[ArraySpec, ...], arrays: tuple[Any, ...], out: Any) -> None:
    """`out` has the dtype and shape of the output, can be written, and overlaps no operand.

    One exception: what the row says, an elementwise op say, may write over an operand that lies exactly
    where `out` lies.
    """
    row = CATALOGUE[op]
    if row.is_view:
        raise CallError(f"{op}(out=...): the result is a view of the operand; use copy for a copy")
    if not isinstance(out, np.ndarray):
        raise CallError(f"{op}(out=...): out is {_no_array(out)}")
    got = ArraySpec(out.dtype, out.shape)
    if got != outputs[0]:
        raise CallError(f"{op}(out=...): out is {got}, the result is {outputs[0]}")
    if not out.flags.writeable:
        raise CallError(f"{op}(out=...): out cannot be written to; pass a writeable array")
    if overlaps_itself(out):
        raise CallError(f"{op}(out=...): elements of out share memory; pass an array of its own")
    for position, x in enumerate(arrays):
        if not np.may_share_memory(out, x):
            continue
        in_place = row.writes_over(position) and x.dtype == out.dtype
        if in_place and _same_place(out, x):
            continue
        try:
            overlaps = "overlaps" if np.shares_memory(out, x, max_work=MOST_WORK) else ""
        except TOO_HARD:  # whether strides of several axes meet is a hard problem of integers
            overlaps = "lies such that it cannot be told whether it overlaps"
        if overlaps:
            raise CallError(
                f"{op}(out=...): out {overlaps} operand {position}; pass other memory, or a copy of "
                f"the operand"
            )


def _no_array(x: Any) -> str:
    return f"a {type(x).__module__}.{type(x).__qualname__}; pass a numpy.ndarray"


def _same_place(x: Any, y: Any) -> bool:
    where = (x.__array_interface__["data"][0], x.shape, x.strides)
    return bool(where == (y.__array_interface__["data"][0], y.shape, y.strides))


def _assigned(target: Any, source: Any, alpha: Any, beta: Any) -> Any:
    if beta != 0 and np.may_share_memory(target, source):
        source = source.copy()
    scaled = source if alpha == 1 else _scaled(source, alpha)
    if beta == 0:
        total = scaled
    elif target.dtype == scaled.dtype and target.dtype.kind in "fc":
        if beta != 1:
            np.multiply(target, np.asarray(beta).astype(target.dtype), out=target)
        return np.add(target, scaled, out=target)
    else:
        total = scaled + (target if beta == 1 else _scaled(target, beta))
        if scaled.dtype.kind == "O":
            total = np.asarray(total, object)
    if total.dtype.kind == "c" and target.dtype.kind not in "cO":
        total = total.real
    np.copyto(target, total, casting="unsafe")
    return target


def _scaled(x: Any, factor: Any) -> Any:
    """x * factor in x's dtype; in a wider one where the factor is another kind of number."""
    if x.dtype.kind == "O":  # without axes, NumPy gives the element itself
        return np.asarray(x * factor, object)
    rank = "biufc".find
    kind = np.asarray(factor).dtype.kind
    if x.dtype.kind in "biufc" and rank(kind) > max(rank(x.dtype.kind), 2 if kind == "i" else 0):
        return np.multiply(x, factor)
    return np.multiply(x, np.asarray(factor).astype(x.dtype))
