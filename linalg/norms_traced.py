"""Norms, condition numbers and ranks inside `trace`: ops that call the functions when a program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import OptionError
from ..backend.catalogue import Attrs
from ..backend.spec import ArraySpec
from ..program.trace import Traced
from . import rules
from .op import Array, Op, Specs, apply, define

Outputs = tuple[tuple[Array, ...], None]


def recorded_norm(op: Op, x: Traced, ord: Any, axis: Any, keepdims: bool) -> Any:
    """`norm` or `vector_norm` of a traced value; what is default is left out of the attributes."""
    given = {"ord": ord, "axis": tuple(axis) if isinstance(axis, list) else axis}
    attrs = {name: value for name, value in given.items() if value is not None}
    if keepdims:
        attrs["keepdims"] = True
    return apply(op, op.name, (x,), attrs, "raise")[0][0]


def recorded_rank(x: Traced, given: dict[str, Any]) -> Any:
    """`matrix_rank` of a traced value."""
    attrs = {name: value for name, value in given.items() if value is not None}
    for name in ("tol", "rtol"):
        if not isinstance(attrs.get(name, 0.0), (int, float, np.integer, np.floating)):
            raise OptionError(f"matrix_rank({name}=...): inside trace it is one number")
        if name in attrs:
            attrs[name] = float(attrs[name])
    return apply(MATRIX_RANK, "matrix_rank", (x,), attrs, "raise")[0][0]


def _called(name: str, attrs: Attrs, x: Array) -> Array:
    from . import norms  # which imports this module

    if name == "vector_norm":  # there None is no order
        attrs = {"ord": 2} | attrs if "ord" not in attrs else attrs
    return np.asarray(getattr(norms, name)(x, **attrs))


def _norm_rule(name: str, attrs: Attrs, inputs: Specs) -> Specs:
    """[...] without the axes, or with size 1 in their place; the dtype is that of a norm of ones, which
    refuses what the function does."""
    (x,) = inputs
    n = len(x.shape)
    axis, keepdims = attrs.get("axis"), attrs.get("keepdims", False)
    one = _called(name, attrs, np.ones((1,) * n, x.dtype))
    axes = range(n) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    gone = {k % n for k in axes}
    shape = [
        1 if k in gone else size for k, size in enumerate(x.shape) if keepdims or k not in gone
    ]
    return (ArraySpec(one.dtype, tuple(shape)),)


def _cond_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> real [...]; square unless it is by singular values"""
    (x,) = inputs
    batch = (rules.parts(x) if attrs.get("p") in (None, 2, -2) else rules.square_parts(x))[0]
    return (ArraySpec(rules.real(x.dtype), batch),)


def _rank_rule(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> int64 [...]; a number of a vector"""
    return (ArraySpec(np.dtype(np.intp), inputs[0].shape[:-2]),)


def _defined(name: str) -> Op:
    return define(
        name,
        lambda attrs, inputs: _norm_rule(name, attrs, inputs),
        lambda attrs, x: ((_called(name, attrs, x),), None),
    )


def _run_cond(attrs: Attrs, x: Array) -> Outputs:
    return (_called("cond", attrs, x),), None


def _run_rank(attrs: Attrs, x: Array) -> Outputs:
    return (np.asarray(_called("matrix_rank", attrs, x), np.intp),), None


NORM, VECTOR_NORM = _defined("norm"), _defined("vector_norm")
COND = define("cond", _cond_rule, _run_cond)
MATRIX_RANK = define("matrix_rank", _rank_rule, _run_rank)
