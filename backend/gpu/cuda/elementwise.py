"""A chain of elementwise ops as one kernel: each input is read once, each output written once."""

from __future__ import annotations

from ...fusion import ElementwiseFusionPlan
from ...spec import Axes
from .body import Body, body_of
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import Layout, index_type, layout
from .text import unit

FILES = ("layout", "numbers", "arithmetic")
MOST_NUMBERS = 500  # of a geometry: a launch has 4096 bytes of parameters

ENTRY = """
extern "C" __global__ void $name($arrays, $layout axes) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < axes.count; i += next_element<Index>()) {
        Index at[$count];
        axes.offsets(i, at);
        $loads
        $steps
        $stores
    }
}
"""


def elementwise(plan: ElementwiseFusionPlan, *strides: Axes) -> CudaKernel | None:
    """outputs[i] = steps(inputs[i]) for every index i of the plan's shape.

    Args:
        plan: without a reduction.
        strides: of every output, then of every input, in elements. Stride 0 broadcasts an input.

    Returns:
        the kernel, which takes outputs, then inputs; None where a step has none, or the numbers of so many
        arrays with so many axes do not fit a launch.

    >>> import numpy as np
    >>> from einloom.backend.fusion import FusionStep
    >>> from einloom.backend.spec import ArraySpec
    >>> x = ArraySpec(np.dtype("f4"), (100, 50))
    >>> plan = ElementwiseFusionPlan((x, x), (FusionStep("add", (0, 1)),), (2,))
    >>> kernel = elementwise(plan, (50, 1), (50, 1), (0, 1))
    >>> kernel.grid, kernel.arrays, kernel.geometry
    ((20, 1, 1), ('out', 'in', 'in'), (5000, 100, 50, 50, 1, 50, 1, 0, 1))
    """
    return kept(("elementwise", plan, strides), lambda: _made(plan, strides))


def _made(plan: ElementwiseFusionPlan, strides: tuple[Axes, ...]) -> CudaKernel | None:
    body = body_of(plan)
    axes = layout(plan.shape, *strides, keep_order=False)
    if body is None or len(axes.geometry()) > MOST_NUMBERS:
        return None
    index = index_type(axes)
    source, name = elementwise_source(body, axes, index)
    arrays = ("out",) * len(body.outputs) + ("in",) * len(body.inputs)
    grid = blocks_of(axes.count)
    wide = index != "int"
    return CudaKernel(source, name, grid, (THREADS, 1, 1), arrays, axes.geometry(), wide)


def elementwise_source(body: Body, axes: Layout, index: str) -> tuple[str, str]:
    """Text and name of the kernel; of the axes only their number matters."""
    outputs = [f"o{k}[at[{k}]] = v{value};" for k, value in enumerate(body.outputs)]
    return unit(
        FILES,
        "elementwise",
        ENTRY,
        arrays=arguments(body.types, body.inputs),
        layout=axes.type(index),
        index=index,
        count=axes.arrays,
        loads="\n".join(body.loads(len(body.outputs))),
        steps="\n".join(body.lines),
        stores="\n".join(outputs),
    )


def arguments(outputs: tuple[str, ...], inputs: tuple[str, ...]) -> str:
    """Pointers o0, o1, ... and i0, i1, ... of a kernel. None is restricted: out may be an operand."""
    made = [f"{t}* o{k}" for k, t in enumerate(outputs)]
    return ", ".join([*made, *(f"const {t}* i{k}" for k, t in enumerate(inputs))])
