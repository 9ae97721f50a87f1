"""A chain of elementwise ops with a trailing reduction: one pass over the inputs, then one over its parts.

    along    the threads of a block share a chunk of what is reduced and add up in pairs
    across   each thread has a kept element of its own: neighbours read neighbours

What is reduced is cut into chunks where it is long; a second launch reduces their results. Nothing is
accumulated by atomics: orders depend on shapes and strides alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...cpu.accumulators import accumulator
from ...fusion import ElementwiseFusionPlan
from ...spec import Axes, Shape
from .body import Body, body_of
from .elementwise import FILES, MOST_NUMBERS, arguments
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import Layout, index_type, layout, row_major
from .text import fill, unit
from .types import TYPES

ALONG = 1 << 16  # elements of a chunk that a block shares
ACROSS = 1 << 10  # elements of a chunk that a thread goes through
SHORT = 32  # elements to be reduced that a thread goes through by itself, wherever they lie

COMBINE = {
    "reduce_sum": "add",
    "reduce_mean": "add",
    "reduce_prod": "multiply",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
}

ACROSS_ENTRY = """
extern "C" __global__ void $name($arrays, $geometry g) {
    typedef $index Index;
    const Index items = g.kept.count * g.chunks;
    for (Index item = first_element<Index>(); item < items; item += next_element<Index>()) {
        const Index chunk = item / g.kept.count, element = item - chunk * g.kept.count;
        const Index part = element * g.chunks + chunk;
        Index start[$arrays_kept], step[$inputs];
        g.kept.offsets(element, start);
        $begin
        const Index stop = g.length < g.reduced.count - chunk * g.length ? (chunk + 1) * g.length
                                                                         : g.reduced.count;
        for (Index r = chunk * g.length; r < stop; ++r) {
            $accumulate
        }
        $finish
    }
}
"""

ALONG_ENTRY = """
extern "C" __global__ void $name($arrays, $geometry g) {
    typedef $index Index;
    $shared
    const Index items = g.kept.count * g.chunks;
    for (Index part = blockIdx.x; part < items; part += gridDim.x) {
        const Index element = part / g.chunks, chunk = part - element * g.chunks;
        Index start[$arrays_kept], step[$inputs];
        g.kept.offsets(element, start);
        $begin
        const Index stop = g.length < g.reduced.count - chunk * g.length ? (chunk + 1) * g.length
                                                                         : g.reduced.count;
        for (Index r = chunk * g.length + (Index)threadIdx.x; r < stop; r += REDUCTION_THREADS) {
            $accumulate
        }
        $publish
        __syncthreads();
        for (int half = REDUCTION_THREADS / 2; half > 0; half /= 2) {
            if ((int)threadIdx.x < half) {
                $fold
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            $collect
            $finish
        }
        __syncthreads();
    }
}
"""

ACCUMULATE = """
g.reduced.offsets(r, step);
Index at[$inputs];
for (int k = 0; k < $inputs; ++k) at[k] = start[$outputs + k] + step[k];
$loads
$steps
$combine
"""


@dataclass(frozen=True, slots=True)
class Launches:
    """Kernels one after another.

    Attributes:
        kernels: in order.
        operands: for each, its pointers by number: outputs, then inputs, then scratch, counted on.
        scratch: dtype's name and elements of each contiguous array that they need beside these.
    """

    kernels: tuple[CudaKernel, ...]
    operands: tuple[tuple[int, ...], ...]
    scratch: tuple[tuple[str, int], ...]


def reduction(plan: ElementwiseFusionPlan, *strides: Axes) -> Launches | None:
    """outputs = reduce(steps(inputs)) over the plan's axes.

    Args:
        plan: with a reduction.
        strides: of every output, which has no axis that is reduced, then of every input, in elements.

    Returns:
        one launch, or two with scratch between them; None where `elementwise` would decline, and where an
        empty set has no maximum.

    >>> import numpy as np
    >>> from einloom.backend.fusion import FusionStep
    >>> from einloom.backend.spec import ArraySpec
    >>> x = ArraySpec(np.dtype("f4"), (10, 1 << 20))
    >>> plan = ElementwiseFusionPlan((x,), (FusionStep("negate", (0,)),), (1,), "reduce_sum", (1,))
    >>> launches = reduction(plan, (1,), (1 << 20, 1))
    >>> launches.scratch, launches.operands, [kernel.grid for kernel in launches.kernels]
    ((('float64', 160),), ((2, 1), (0, 2)), [(160, 1, 1), (1, 1, 1)])
    """
    return kept(("reduction", plan, strides), lambda: _made(plan, strides))


def _made(plan: ElementwiseFusionPlan, strides: tuple[Axes, ...]) -> Launches | None:
    body = body_of(plan)
    assert plan.reduce is not None
    values = plan.values()
    if body is None or (0 in plan.shape and plan.reduce in ("reduce_max", "reduce_min")):
        return None
    dtypes = tuple(accumulator(plan.reduce, values[k].dtype) for k in plan.outputs)
    one = _Reduction(plan.reduce, body, tuple(dtype.name for dtype in dtypes))
    axes = _axes(plan, strides)
    if axes is None:
        return None
    kept_axes, reduced, divisor = axes
    chunks = -(-reduced.count // one.chunk(kept_axes, reduced))
    outputs, inputs = len(body.outputs), len(body.inputs)
    arrays = tuple(range(outputs + inputs))
    if chunks <= 1:
        return Launches((one.kernel(kept_axes, reduced, 1, divisor, True),), (arrays,), ())
    scratch = tuple(range(outputs + inputs, 2 * outputs + inputs))
    first = one.kernel(kept_axes, reduced, chunks, 1, False)
    second = _second(one, plan, strides[:outputs], dtypes, chunks, divisor)
    return Launches(
        (first, second),
        ((*scratch, *arrays[outputs:]), (*arrays[:outputs], *scratch)),
        tuple((dtype.name, kept_axes.count * chunks) for dtype in dtypes),
    )


def _axes(
    plan: ElementwiseFusionPlan, strides: tuple[Axes, ...]
) -> tuple[Layout, Layout, int] | None:
    """What is kept, walked by all arrays, and what is reduced, walked by the inputs."""
    shape, ndim = plan.shape, len(plan.shape)
    outputs = len(plan.outputs)
    reduced_axes = [axis for axis in range(ndim) if axis in plan.axes]
    others = [axis for axis in range(ndim) if axis not in plan.axes]
    inputs = strides[outputs:]
    kept_axes = layout(
        tuple(shape[axis] for axis in others),
        *strides[:outputs],
        *(tuple(of[axis] for axis in others) for of in inputs),
    )
    reduced = layout(
        tuple(shape[axis] for axis in reduced_axes),
        *(tuple(of[axis] for axis in reduced_axes) for of in inputs),
        keep_order=False,
    )
    if len(kept_axes.geometry()) + len(reduced.geometry()) > MOST_NUMBERS:
        return None
    return kept_axes, reduced, math.prod(shape[axis] for axis in reduced_axes)


def _second(
    one: _Reduction,
    plan: ElementwiseFusionPlan,
    strides: tuple[Axes, ...],
    dtypes: tuple[np.dtype[np.generic], ...],
    chunks: int,
    divisor: int,
) -> CudaKernel:
    """The reduction of the chunks' results, which lie one behind another for each kept element."""
    shape: Shape = tuple(n for axis, n in enumerate(plan.shape) if axis not in plan.axes)
    count = len(one.body.outputs)
    steps = tuple(chunks * stride for stride in row_major(shape))
    kept_axes = layout(shape, *strides, *(steps for _ in range(count)))
    reduced = layout((chunks,), *((1,) for _ in range(count)))
    types = tuple(TYPES[dtype.name] for dtype in dtypes)
    body = Body(types, (), tuple(range(count)), one.body.types)
    again = _Reduction(one.op, body, one.accumulators)
    return again.kernel(kept_axes, reduced, 1, divisor, True)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """What is accumulated of a body, and in which dtypes."""

    op: str
    body: Body
    accumulators: tuple[str, ...]

    def is_across(self, kept_axes: Layout, reduced: Layout) -> bool:
        """Whether threads lie along what is kept: the inputs' neighbours are there."""
        if reduced.count <= SHORT:
            return True
        if not kept_axes.axes or not reduced.axes:
            return False
        outputs = len(self.body.outputs)
        inputs = range(len(self.body.inputs))
        nearest_kept = min(abs(kept_axes.axes[-1][1 + outputs + k]) or 1 << 62 for k in inputs)
        nearest = min(abs(axis[1 + k]) or 1 << 62 for axis in reduced.axes for k in inputs)
        return kept_axes.axes[-1][0] >= SHORT and nearest_kept < nearest

    def chunk(self, kept_axes: Layout, reduced: Layout) -> int:
        """Elements that are reduced by one thread or one block."""
        return ACROSS if self.is_across(kept_axes, reduced) else ALONG

    def kernel(
        self, kept_axes: Layout, reduced: Layout, chunks: int, divisor: int, last: bool
    ) -> CudaKernel:
        """The launch; the `last` one writes outputs as they are to be."""
        across = self.is_across(kept_axes, reduced)
        index = index_type(kept_axes, reduced)
        if kept_axes.count * chunks >= 1 << 30:
            index = "long long"
        source, name = self.text(kept_axes, reduced, index, across, last)
        items = kept_axes.count * chunks
        length = self.chunk(kept_axes, reduced)
        geometry = (*kept_axes.geometry(), *reduced.geometry(), chunks, length, max(1, divisor))
        outputs = (
            ("out",) * len(self.body.outputs) if last else ("scratch",) * len(self.body.outputs)
        )
        return CudaKernel(
            source,
            name,
            blocks_of(items) if across else blocks_of(items, 1),
            (THREADS, 1, 1),
            (*outputs, *("in",) * len(self.body.inputs)),
            geometry,
            index != "int",
        )

    def text(
        self, kept_axes: Layout, reduced: Layout, index: str, across: bool, last: bool
    ) -> tuple[str, str]:
        outputs, inputs = len(self.body.outputs), len(self.body.inputs)
        types = [TYPES[name] for name in self.accumulators]
        combine = COMBINE[self.op]
        accumulate = fill(
            ACCUMULATE,
            inputs=inputs,
            outputs=outputs,
            loads="\n".join(self.body.loads(0)),
            steps="\n".join(self.body.lines),
            combine="\n".join(
                f"a{k} = op::{combine}(a{k}, to<{types[k]}>(v{value}));"
                for k, value in enumerate(self.body.outputs)
            ),
        )
        count = range(outputs)
        targets = self.body.types if last else tuple(types)
        return unit(
            (*FILES, "reduction"),
            self.op,
            ACROSS_ENTRY if across else ALONG_ENTRY,
            arrays=arguments(targets, self.body.inputs),
            geometry=f"Reduction<{kept_axes.type(index)}, {reduced.type(index)}, {index}>",
            index=index,
            arrays_kept=outputs + inputs,
            inputs=inputs,
            begin="\n".join(f"{types[k]} a{k} = {self.identity(k)};" for k in count),
            accumulate=accumulate,
            shared="\n".join(f"__shared__ {types[k]} s{k}[REDUCTION_THREADS];" for k in count),
            publish="\n".join(f"s{k}[threadIdx.x] = a{k};" for k in count),
            fold="\n".join(
                f"s{k}[threadIdx.x] = op::{combine}(s{k}[threadIdx.x], s{k}[threadIdx.x + half]);"
                for k in count
            ),
            collect="\n".join(f"a{k} = s{k}[0];" for k in count),
            finish="\n".join(self.store(k, last) for k in count),
        )

    def store(self, k: int, last: bool) -> str:
        if not last:
            return f"o{k}[part] = a{k};"
        kind = TYPES[self.accumulators[k]]
        value = f"a{k}"
        if self.op == "reduce_mean":
            value = f"op::divide({value}, to<{kind}>((long long)g.divisor))"
        return f"o{k}[start[{k}]] = to<{self.body.types[k]}>({value});"

    def identity(self, k: int) -> str:
        """What leaves any number as it is."""
        kind = TYPES[self.accumulators[k]]
        if self.op in ("reduce_sum", "reduce_mean", "reduce_prod"):
            return f"to<{kind}>({int(self.op == 'reduce_prod')})"
        sign = "-" if self.op == "reduce_max" else ""
        if self.accumulators[k].startswith("float"):
            return f"({kind}){sign}__uint_as_float(0x7f800000u)"
        if kind == "bool":
            return "false" if sign else "true"
        return f"({kind})Limits<{kind}>::{'low' if sign else 'high'}"
