"""Chains of elementwise ops, with a trailing reduction perhaps, run as one parallel pass.

    generated   every step has a formula: one compiled kernel reads each input once, writes each output
                once, and keeps everything between in registers; reductions keep their accumulators in
                L1. No memory but tables and, in each thread, the accumulators of a reduction, or a row of
                each result that goes past the caches.
    blocks      some step has none (exponentials, half precisions, ...): NumPy's vectorised loops on
                blocks that stay in cache, BLOCK bytes for each value alive in each thread.
    declined    such a step before a reduction: `bind_fused` returns None and the ops run one by one.

Small work always goes in blocks: nothing small waits for a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..fusion import ElementwiseFusionPlan, reduction_attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from .buffers import empty
from .cast import evaluate_cast
from .elementwise import EVALUATE, Evaluate, over_blocks, over_pieces, through_float32
from .jit import generated
from .patience import counted, too_early
from .reduce import bind_reduce, reduce_scratch_bytes
from .reduction import Reduction
from .source import Body, body_of, elementwise_source
from .strided import Axis, axis_table, element_strides, flat, merge_axes
from .threads import parallel_for

BLOCK = 1 << 19  # bytes of a block: large enough that threads seldom wait for the interpreter
COLUMNS = 2048  # elements of a tile's row where all operands are contiguous
# what NumPy and a kernel compute to the same numbers, of which dtypes
ALIKE, ALIKE_DTYPES = ("add", "subtract", "multiply"), "fdbBhHiIlLqQ"
SHORT = 8  # elements of a row from which a longer axis that is across them is no better
# bytes of a result that goes past the caches where little is read for it: last caches are mostly smaller, and
# from one that holds it what comes next would read it sooner
STREAMED = 64 << 20
ROW = 1 << 10  # bytes of a row from which that is tried
SQUARE = 64  # elements along each side of a tile where one operand lies across the others


def bind_fused(plan: ElementwiseFusionPlan) -> Kernel | None:
    """One kernel for `plan`; it returns its output, or a tuple of several. Inputs may have size 1 where they
    are broadcast."""
    values = plan.values()
    outputs = plan.output_specs()
    body = body_of(values, plan.steps, plan.outputs)
    if plan.reduce is not None:
        return None if body is None else _bind_reduction(plan, body, outputs)
    in_blocks = _bind_blocks(plan, values)
    if body is None:
        return in_blocks
    if math.prod(plan.shape) < max(1, get_options().small):
        return in_blocks
    run = Elementwise(body)
    step = EVALUATE[plan.steps[0].op] if _is_alike(plan, values) else None

    def kernel(*inputs: Any, out: Any = None) -> Any:
        targets = _targets(outputs, out)
        if step is not None and too_early():
            with counted():
                operands = tuple(_whole(inputs[k], plan.shape) for k in plan.steps[0].operands)
                return over_blocks(step, targets[0], operands, cut=False)
        if not run(targets, inputs):
            return in_blocks(*inputs, out=targets if len(targets) > 1 else targets[0])
        return targets if len(targets) > 1 else targets[0]

    return kernel


def bind_alone(plan: ElementwiseFusionPlan) -> Elementwise | None:
    """The kernel of one step that NumPy computes to the same numbers, whatever the size; None for others."""
    values = plan.values()
    body = body_of(values, plan.steps, plan.outputs)
    return Elementwise(body) if body is not None and _is_alike(plan, values) else None


def _whole(x: Any, shape: Shape) -> Any:
    """x broadcast to this shape."""
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _is_alike(plan: ElementwiseFusionPlan, values: Sequence[ArraySpec]) -> bool:
    """Whether it is one step that NumPy and a kernel compute to the same numbers: not complex products, in
    which a multiplication and an addition may be one operation."""
    return (
        len(plan.steps) == 1
        and plan.outputs == (len(plan.inputs),)
        and plan.steps[0].op in ALIKE
        and all(spec.dtype.char in ALIKE_DTYPES for spec in values)
    )


def fused_scratch_bytes(
    plan: ElementwiseFusionPlan, foreign: Axes, temporaries: int, threads: int
) -> int:
    """An upper bound of what the kernel for `plan` allocates besides its outputs, for large work;
    `temporaries` is what one of its steps allocates beyond its result, on blocks."""
    values = plan.values()
    if plan.reduce is not None:  # what lies between elements is copied
        results = sum(reduce_scratch_bytes(values[k], plan.axes, threads) for k in plan.outputs)
        if math.prod(plan.shape) < get_options().small:  # what is reduced is in memory
            blocks = sum(dtype.itemsize for dtype in _scratch(plan, values)[1]) * math.prod(
                plan.shape
            )
            results += sum(values[k].nbytes for k in plan.outputs) + blocks
        return results + sum(plan.inputs[k].nbytes for k in foreign)
    if not foreign and body_of(values, plan.steps, plan.outputs) is not None:
        made = plan.output_specs()
        row = COLUMNS * sum(spec.dtype.itemsize for spec in made)
        return threads * row if all(spec.nbytes >= STREAMED for spec in made) else 0
    elements = BLOCK // max(spec.dtype.itemsize for spec in (*plan.inputs, *plan.output_specs()))
    width = sum(dtype.itemsize for dtype in _scratch(plan, values)[1])
    return threads * min(elements, math.prod(plan.shape)) * width + temporaries


def _targets(outputs: Sequence[ArraySpec], out: Any) -> tuple[Any, ...]:
    if out is None:
        return tuple(empty(spec.shape, spec.dtype) for spec in outputs)
    return out if isinstance(out, tuple) else (out,)


# ---- blocks -----------------------------------------------------------------------------------


def _bind_blocks(plan: ElementwiseFusionPlan, values: Sequence[ArraySpec]) -> Kernel:
    """The steps one by one on blocks; a value that is an output is written where it belongs."""
    outputs = plan.output_specs()
    first = len(plan.inputs)
    places, dtypes = _scratch(plan, values)
    evaluators = [_evaluator(step.op, step.attrs, values, step.operands, spec)
                  for step, spec in zip(plan.steps, values[first:], strict=True)]  # fmt: skip

    def start_piece() -> Evaluate:
        scratch: list[Any] = []  # blocks have one shape, but for the last

        def evaluate(out: Any, *arrays: Any) -> None:
            others, inputs = arrays[: len(outputs) - 1], arrays[len(outputs) - 1 :]
            known = list(inputs)
            if not scratch or scratch[0].shape != out.shape:
                scratch.clear()
                scratch.extend(np.empty(out.shape, dtype) for dtype in dtypes)
            for place, step, run in zip(places, plan.steps, evaluators, strict=True):
                run(scratch[place], *(known[k] for k in step.operands))
                known.append(scratch[place])
            for target, k in zip((out, *others), plan.outputs, strict=True):
                np.copyto(target, known[k])

        return evaluate

    def kernel(*inputs: Any, out: Any = None) -> Any:
        targets = _targets(outputs, out)
        whole = (_whole(x, plan.shape) for x in inputs)
        over_pieces(start_piece, targets[0], (*targets[1:], *whole), BLOCK)
        return targets if len(targets) > 1 else targets[0]

    return kernel


def _scratch(
    plan: ElementwiseFusionPlan, values: Sequence[ArraySpec]
) -> tuple[list[int], list[np.dtype[Any]]]:
    """Where each step writes, and the dtypes of these places; one is free again once it is read."""
    first = len(plan.inputs)
    last = {k: at for at, step in enumerate(plan.steps) for k in step.operands}
    last |= dict.fromkeys(plan.outputs, len(plan.steps))
    places: list[int] = []
    dtypes: list[np.dtype[Any]] = []
    free: list[int] = []
    for at, step in enumerate(plan.steps):
        dtype = values[first + at].dtype
        place = next((p for p in free if dtypes[p] == dtype), len(dtypes))
        if place == len(dtypes):
            dtypes.append(dtype)
        else:
            free.remove(place)
        places.append(place)
        free += [places[k - first] for k in {*step.operands} if k >= first and last[k] == at]
    return places, dtypes


def _evaluator(
    op: str, attrs: Any, values: Sequence[ArraySpec], operands: Axes, output: ArraySpec
) -> Any:
    if op in ("convert", "cast"):
        return evaluate_cast(values[operands[0]].dtype, output.dtype)[0]
    if op == "identity":
        return lambda out, x: np.copyto(out, x)
    return through_float32(EVALUATE[op], [values[k] for k in operands], output)


# ---- generated elementwise kernels ------------------------------------------------------------


class Elementwise:
    """Runs a body over arrays that broadcast to one shape; tables are kept for the strides last seen."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.kept: tuple[Any, Any] = (None, None)

    def __call__(
        self, outputs: tuple[Any, ...], inputs: tuple[Any, ...], threads: int | None = None
    ) -> bool:
        """Fill the outputs, on so many threads; False if some array lies between elements."""
        arrays = (*outputs, *inputs)
        key = tuple([(x.shape, x.strides, x.flags.aligned) for x in arrays])
        seen, tables = self.kept  # read once: another thread may put its own there at any time
        if seen != key:
            shape = arrays[0].shape
            strides = [_broadcast_strides(x, shape) for x in arrays]
            if any(of is None for of in strides):
                return False
            dtypes = [x.dtype for x in arrays]
            origins = [flat(x)[1] for x in arrays]  # they lie there whatever the address
            tables = _elementwise_tables(self.body, shape, strides, dtypes, len(outputs), origins)
            self.kept = (key, tables)
        flats = [flat(x, writeable=k < len(outputs))[0] for k, x in enumerate(arrays)]

        def piece(start: int, stop: int) -> None:
            tables.kernel(start, stop, *tables.arguments, *flats)

        parallel_for(piece, tables.tiles, threads)
        return True


def _broadcast_strides(x: Any, shape: Shape) -> list[int] | None:
    """Of x, broadcast to a shape of as many axes, in elements."""
    strides = element_strides(x)
    if strides is None or x.shape == shape:
        return strides
    return [0 if n == 1 else step for n, step in zip(x.shape, strides, strict=True)]


@dataclass(frozen=True, slots=True)
class _Tables:
    kernel: Callable[..., None]
    tiles: int
    arguments: tuple[Any, ...]


def _elementwise_tables(
    body: Body,
    shape: Shape,
    strides: Sequence[Any],
    dtypes: Sequence[np.dtype[Any]],
    outputs: int,
    origins: Sequence[int],
) -> _Tables:
    axes: list[Axis] = list(zip(shape, *strides, strict=True))
    axes = merge_axes(sorted((a for a in axes if a[0] != 1), key=lambda a: (-abs(a[1]), -a[0])))
    count = len(strides)
    column = axes.pop(_best_column(axes)) if axes else (1,) + (0,) * count
    across = any(abs(s) > 1 for s in column[1:])
    row = (1,) + (0,) * count
    if axes and across:  # the axis along which what lies across is contiguous
        worst = max(range(1, count + 1), key=lambda k: abs(column[k]))
        row = axes.pop(min(range(len(axes)), key=lambda i: abs(axes[i][worst]) or 1 << 62))
    elif axes:
        row = axes.pop()
    block = SQUARE if across else COLUMNS
    rows = min(row[0], block if across else max(1, COLUMNS // column[0]))
    columns = min(column[0], block)
    blocked = [
        (-(-row[0] // rows), *(s * rows for s in row[1:])),
        (-(-column[0] // columns), *(s * columns for s in column[1:])),
    ]
    pattern = "".join("c" if s == 1 else "b" if s == 0 else "s" for s in column[1:])
    pattern = "".join("s" if k < outputs and c == "b" else c for k, c in enumerate(pattern))
    outer = [*axes, *blocked]
    # rows of some lines: of shorter ones most lines are not whole
    are_rows = columns * min(x.itemsize for x in dtypes[:outputs]) >= ROW
    are_lines = are_rows and pattern[:outputs] == "c" * outputs
    are_streamed = are_lines and _are_streamed(shape, strides, dtypes, outputs)
    return _Tables(
        generated(elementwise_source(body, pattern, are_streamed)),
        math.prod(n for n, *_ in outer),
        (
            np.array(origins),
            axis_table(outer, count),
            np.array((rows, row[0], columns, column[0])),
            np.array((row[1:], column[1:])),
        ),
    )


def _are_streamed(
    shape: Shape, strides: Sequence[Any], dtypes: Sequence[np.dtype[Any]], outputs: int
) -> bool:
    """Whether results are so large that to fetch their lines before they are written takes time: a fifth to
    two fifths of that of an outer product of 128 MiB (Zen 4). A product of two factors of that size took as
    long either way; between the two nothing was measured."""
    nbytes = [
        dtype.itemsize * math.prod(n for n, step in zip(shape, of, strict=True) if step != 0)
        for dtype, of in zip(dtypes, strides, strict=True)
    ]
    are_lines = all(dtype.kind != "b" for dtype in dtypes[:outputs])
    is_little = 2 * sum(nbytes[outputs:]) <= sum(nbytes[:outputs])
    return are_lines and is_little and min(nbytes[:outputs]) >= STREAMED


def _best_column(axes: Sequence[Axis]) -> int:
    """The last axis, unless it is so short that a longer neighbour repays its strides."""
    last = len(axes) - 1
    if axes[last][0] >= SHORT or last == 0:
        return last
    return max((last, last - 1), key=lambda i: axes[i][0])


# ---- generated reductions ---------------------------------------------------------------------


def _bind_reduction(
    plan: ElementwiseFusionPlan, body: Body, outputs: tuple[ArraySpec, ...]
) -> Kernel:
    """Small or empty operands: the chain in blocks, then NumPy's reduction of each value."""
    assert plan.reduce is not None
    chain = replace(plan, reduce=None, axes=())
    values = plan.values()
    in_blocks = _bind_blocks(chain, values)
    attrs = reduction_attrs(plan.reduce, plan.axes)
    reducers = [
        bind_reduce(plan.reduce)(attrs, (values[k],), output)
        for k, output in zip(plan.outputs, outputs, strict=True)
    ]
    compiled = Reduction(plan, body) if 0 not in plan.shape else None
    size = math.prod(plan.shape)

    def kernel(*inputs: Any, out: Any = None) -> Any:
        targets = _targets(outputs, out)
        if compiled is not None and size >= max(1, get_options().small):
            compiled(targets, tuple(_whole(x, plan.shape) for x in inputs))
        else:
            made = in_blocks(*inputs)
            for reduce, x, target in zip(
                reducers, made if isinstance(made, tuple) else (made,), targets, strict=True
            ):
                reduce(x, out=target)
        return targets if len(targets) > 1 else targets[0]

    return kernel
