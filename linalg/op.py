"""One way for every function: run on arrays now, or record an extension op for later."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.catalogue import Attrs
from ..backend.cpu.linalg.plain import GOOD
from ..backend.spec import ArraySpec
from ..program.extension import register_family, register_runtime
from ..program.trace import Traced, traced_extension
from .failures import NOT_FINITE, OnError, any_failed, check_on_error, failed, settle

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]
Rule = Callable[[Attrs, Specs], Specs]
Run = Callable[..., tuple[tuple[Any, ...], Array | None]]
Reads = Callable[..., tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Op:
    """A function of batches of matrices, as extension family "linalg.name.v1".

    Attributes:
        name: as it is called.
        run: `run(attrs, *arrays) -> (outputs, info)` on the CPU. Arrays have one dtype and equal batch
            shapes; `info` [batch...] says which members failed, None if nothing can.
        failure: what failed where info > 0.
        reads: `reads(attrs, *arrays)` has zeros for the elements that are not read; None if all are.
    """

    name: str
    run: Run
    failure: str
    reads: Reads | None = None

    @property
    def family(self) -> str:
        return f"linalg.{self.name}.v1"


OPS: dict[str, Op] = {}
"""By family: those that `define` declared."""


def define(
    name: str, rule: Rule, run: Run, failure: str = "failed", reads: Reads | None = None
) -> Op:
    """Declare an op and its runtime on the CPU.

    The family has the outputs that `rule` gives, and after them the codes if the attribute `on_error`
    is "info". A program is told what to do on failure by the attributes `on_error` and `check_finite`;
    without them it raises, and looks for no NaN.
    """
    op = Op(name, run, failure, reads)

    def infer(attrs: Attrs, inputs: Specs) -> Specs:
        outputs = rule(attrs, inputs)
        if attrs.get("on_error") != "info":
            return outputs
        return (*outputs, ArraySpec(np.dtype(np.int32), inputs[0].shape[:-2]))

    def runtime(attrs: Attrs, *arrays: Array) -> tuple[Any, ...]:
        on_error: OnError = attrs.get("on_error", "raise")
        check_finite = attrs.get("check_finite", False)
        outputs, info = execute(op, name, attrs, arrays, on_error, check_finite)
        return (*outputs, info) if on_error == "info" else outputs

    OPS[op.family] = op
    register_family(op.family, infer)
    register_runtime(op.family, "cpu", runtime)
    if name in ON_DEVICES:

        def on_device(attrs: Attrs, *arrays: Any) -> tuple[Any, ...]:
            from .ops_on_device import run_on_device  # what runs on the host needs none of it

            return run_on_device(op, attrs, *arrays)

        register_runtime(op.family, "gpu", on_device)
    return op


ON_DEVICES = frozenset((
    "cholesky", "solve", "inv", "det", "slogdet", "lu_factor", "lu", "lu_solve", "cho_solve",
    "triangular_solve", "qr", "qr_positive", "positive_qr", "eigh", "hermitian_svd", "svd", "truncated_svd",
    "canonical_svd", "canonical_vectors", "polar", "eig", "pinv", "lstsq",
))  # fmt: skip
"""The ops with a runtime on a GPU."""


def apply(
    op: Op,
    call: str,
    arrays: tuple[Any, ...],
    attrs: Attrs,
    on_error: OnError,
    check_finite: bool = False,
) -> tuple[tuple[Any, ...], Any]:
    """Outputs and codes of an op, from arrays or from traced values."""
    if on_error != "raise":
        check_on_error(call, on_error)
    for x in arrays:
        if type(x) is Traced:
            return _recorded(op, call, arrays, attrs, on_error, check_finite)
    if on_error != "raise" or (check_finite and not_finite(arrays) is not None):
        return execute(op, call, attrs, arrays, on_error, check_finite)
    outputs, info = op.run(attrs, *arrays)  # of one small matrix this is as fast as what it runs
    if info is not None and info is not GOOD and any_failed(info):
        raise failed(call, op.failure, info)
    return outputs, info


def execute(
    op: Op,
    call: str,
    attrs: Attrs,
    arrays: tuple[Array, ...],
    on_error: OnError,
    check_finite: bool,
) -> tuple[tuple[Any, ...], Array]:
    """Run an op and settle what failed."""
    infinite = not_finite(arrays) if check_finite else None
    if infinite is not None and op.reads is not None:
        infinite = not_finite(op.reads(attrs, *arrays))
    if infinite is not None:
        arrays = tuple(
            np.where(infinite[..., None, None], 0, x) if x.dtype.kind in "fc" else x for x in arrays
        )
    outputs, info = op.run(attrs, *arrays)
    if infinite is not None:
        outputs = tuple(np.asarray(x) for x in outputs)
        info = np.where(infinite, NOT_FINITE, 0 if info is None else info).astype(np.int32)
    elif info is None:
        info = np.zeros(arrays[0].shape[:-2], np.int32)
    if any_failed(info):
        outputs = tuple(np.asarray(x) for x in outputs)  # numbers cannot be filled
    settle(call, op.failure, outputs, info, on_error)
    if on_error == "info" and not info.flags.writeable:
        info = info.copy()  # a kernel may return one constant for every good matrix
    return outputs, info


FEW = (
    1 << 10
)  # elements: the sum of squares of so few says sooner than a look at each whether all are finite


def not_finite(arrays: tuple[Array, ...]) -> Array | None:
    """Which members have NaN or infinity in an operand; None if no one has."""
    bad: Any = None
    for x in arrays:
        if x.dtype.kind not in "fc" or (x.size < FEW and math.isfinite(np.vdot(x, x).real)):
            continue
        finite = np.isfinite(x)
        if finite.all():
            continue
        found = ~finite.all(axis=(-2, -1))
        bad = found if bad is None else bad | found
    return None if bad is None else np.asarray(bad)


def _recorded(
    op: Op,
    call: str,
    values: tuple[Any, ...],
    attrs: Attrs,
    on_error: OnError,
    check_finite: bool,
) -> tuple[tuple[Any, ...], Any]:
    """Append the op to the trace; what is default is left out of its attributes."""
    attrs = {name: value for name, value in attrs.items() if name != "overwrite"}
    if on_error != "raise":
        attrs["on_error"] = on_error
    if check_finite:
        attrs["check_finite"] = True
    outputs = traced_extension(op.family, attrs, *values)
    return (outputs[:-1], outputs[-1]) if on_error == "info" else (outputs, None)
