"""Windows that slide over the last axes: columns of them, and their sum. One launch for each tap."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..cpu.windows import Sliding
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .arrays import Binder, into
from .modules import Module

Inputs = tuple[ArraySpec, ...]


def bind_unfold(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    sliding = Sliding("unfold", attrs, inputs[0].shape[-len(attrs["kernel"]) :])
    shape = (*output.shape[:-2], *sliding.kernel, *sliding.counts)

    def compute(x: Any) -> Any:
        made = xp.zeros(shape, output.dtype)
        if made.size:
            for tap in np.ndindex(*sliding.kernel):
                places, windows = sliding.inside(tap)
                made[(..., *tap, *windows)] = x[(..., *places)]
        return made.reshape(output.shape)

    return into(xp, compute, output)


def bind_fold(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    sliding = Sliding("fold", attrs, attrs["sizes"])
    shape = (*inputs[0].shape[:-2], *sliding.kernel, *sliding.counts)
    wide = compute_dtype(output.dtype)

    def compute(x: Any) -> Any:
        made = xp.zeros(output.shape, wide)
        if made.size:
            columns = x.reshape(shape)
            for tap in np.ndindex(*sliding.kernel):
                places, windows = sliding.inside(tap)
                made[(..., *places)] += columns[(..., *tap, *windows)].astype(wide, copy=False)
        return made

    return into(xp, compute, output)


BINDERS: dict[str, Binder] = {"unfold": bind_unfold, "fold": bind_fold}
