"""The Backend protocol over numpy.ndarray."""

from __future__ import annotations

import math
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ..._base.errors import Unsupported
from ..catalogue import CATALOGUE, Attrs, dot_dims, infer
from ..protocol import Kernel
from ..spec import ArraySpec, Shape, dtype_name
from . import structure
from .contraction import bind_dot_general, dot_engine, dot_scratch_bytes
from .sum_product import BLOCK, bind_sum_product

BINDERS: dict[str, structure.Binder] = {
    "transpose": structure.bind_transpose,
    "squeeze": structure.bind_squeeze,
    "expand_dims": structure.bind_expand_dims,
    "broadcast_in_dim": structure.bind_broadcast_in_dim,
    "extract_diagonal": structure.bind_extract_diagonal,
    "embed_diagonal": structure.bind_embed_diagonal,
    "convert": structure.bind_convert,
    "copy": structure.bind_copy,
    "conj": structure.bind_conj,
    "multiply": structure.bind_ufunc(np.multiply),
    "add": structure.bind_ufunc(np.add),
    "reduce_sum": structure.bind_reduce_sum,
    "dot_general": bind_dot_general,
    "sum_product": bind_sum_product,
    "constant": structure.bind_constant,
}
ARITHMETIC = frozenset({"multiply", "add", "reduce_sum", "dot_general", "sum_product"})


class CpuBackend:
    """Arrays are numpy.ndarray of any strides and native byte order."""

    name = "cpu"
    device = "cpu"

    def bind(
        self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
    ) -> Kernel:
        binder = BINDERS.get(op)
        if binder is None:
            raise Unsupported(
                f"op {op!r} has no kernel on the CPU; those that have: {', '.join(BINDERS)}"
            )
        if op in ARITHMETIC and not structure.sums_exactly(output.dtype):
            raise Unsupported(
                f"op {op!r} on the CPU does not take {dtype_name(output.dtype)}; convert the operands "
                f"first (float16 and bfloat16: to float32)"
            )
        if op in ARITHMETIC and not all(spec.dtype.isnative for spec in inputs):
            raise Unsupported(
                f"op {op!r} on the CPU does not take {inputs[0].dtype.str} (foreign byte order); "
                f'convert the operands first: x.astype(x.dtype.newbyteorder("="))'
            )
        return binder(attrs, inputs, output)

    def engine(self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> str:
        if op == "dot_general":
            return dot_engine(dot_dims(attrs, inputs[0].shape, inputs[1].shape), inputs[0].dtype)
        return "view" if CATALOGUE[op].is_view else op

    def scratch_bytes(self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
        if op == "dot_general":
            return dot_scratch_bytes(attrs, inputs)
        if op == "sum_product":  # two products of a block, and operands packed for their blocks
            shapes = (x.shape for x in inputs)
            sizes = dict(
                zip(chain.from_iterable(attrs["terms"]), chain.from_iterable(shapes), strict=True)
            )
            block = min(BLOCK, math.prod(sizes.values()))
            return 2 * block * inputs[0].dtype.itemsize + sum(x.nbytes for x in inputs)
        return 0

    def capabilities(self) -> dict[str, frozenset[str]]:
        return {op: frozenset(_dtypes(op)) for op in BINDERS}

    def apply(self, op: str, attrs: Attrs, *arrays: Any, out: Any = None) -> Any:
        inputs = tuple(ArraySpec(x.dtype, x.shape) for x in arrays)
        kernel = self.bind(op, attrs, inputs, infer(op, attrs, inputs))
        return kernel(*arrays) if out is None else kernel(*arrays, out=out)

    def empty(self, spec: ArraySpec) -> Any:
        return np.empty(spec.shape, spec.dtype)

    def full(self, shape: Shape, value: Any, dtype: Any) -> Any:
        return np.full(shape, value, dtype)

    def assign(self, target: Any, source: Any, alpha: Any = 1, beta: Any = 0) -> Any:
        if target.dtype == source.dtype and target.dtype.kind in "fc":
            return _assign_in_place(target, source, alpha, beta)
        if not _is_one(alpha):
            source = source * np.asarray(alpha, source.dtype)
        if not _is_zero(beta):
            source = source + target * np.asarray(beta, source.dtype)
        np.copyto(target, source, casting="unsafe")
        return target

    def to_device(self, array: Any) -> Any:
        return np.asarray(array)

    def to_host(self, array: Any) -> Any:
        return array


@cache
def cpu() -> CpuBackend:
    """The CPU backend."""
    return CpuBackend()


def _dtypes(op: str) -> list[str]:
    names = ["bool", "longdouble", "clongdouble", "object", "complex64", "complex128"]
    names += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    names += ["float32", "float64"]
    return names if op in ARITHMETIC else [*names, "float16", "bfloat16"]


def _assign_in_place(target: Any, source: Any, alpha: Any, beta: Any) -> Any:
    """target = alpha * source + beta * target with one temporary at most; source may be target."""
    if _is_zero(beta):
        if _is_one(alpha):
            np.copyto(target, source)
        else:
            np.multiply(source, np.asarray(alpha, source.dtype), out=target)
        return target
    if not _is_one(beta):
        np.multiply(target, np.asarray(beta, target.dtype), out=target)
    scaled = source if _is_one(alpha) else source * np.asarray(alpha, source.dtype)
    return np.add(target, scaled, out=target)


def _is_one(value: Any) -> bool:
    return type(value) in (int, float) and value == 1


def _is_zero(value: Any) -> bool:
    return type(value) in (int, float) and value == 0
