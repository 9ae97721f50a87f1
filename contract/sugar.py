"""tensordot, transpose and ncon: other spellings of an einsum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, ShapeError, SubscriptError, spoken_for
from ..backend.choice import placed
from ..backend.dims import differ
from ..backend.door import as_ndarray, is_torch, to_torch
from ..backend.lent import returned
from ..program.trace import Traced
from .einsum import einsum
from .tree import ContractionTree, Path


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes: out[i.., j..] = sum_k a[i.., k..] * b[k.., j..], as numpy.tensordot.

    Args:
        a, b: arrays.
        axes: the number of last axes of a and first axes of b to pair, or two lists of axes.

    Returns:
        array of a's free axes, then b's.

    >>> import numpy as np
    >>> tensordot(np.ones((2, 3, 4)), np.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    a, b = (
        x if hasattr(x, "shape") else as_ndarray(x, "tensordot", k) for k, x in enumerate((a, b))
    )
    shapes = [_shape(a), _shape(b)]
    left, right = _paired_axes(axes, len(shapes[0]), len(shapes[1]))
    for i, j in zip(left, right, strict=True):
        if differ(shapes[0][i], shapes[1][j]):
            raise ShapeError(
                f"tensordot: axis {i} of a has size {shapes[0][i]}, axis {j} of b {shapes[1][j]} "
                f"(shapes {shapes[0]} and {shapes[1]})"
            )
    a_labels = list(range(len(shapes[0])))
    b_labels = [len(a_labels) + axis for axis in range(len(shapes[1]))]
    for i, j in zip(left, right, strict=True):
        b_labels[j] = a_labels[i]
    output = [x for x in a_labels if x not in b_labels] + [x for x in b_labels if x not in a_labels]
    with spoken_for("tensordot"):
        result = einsum(a, a_labels, b, b_labels, output)
    return np.asarray(result) if isinstance(result, np.generic) else result


def transpose(a: Any, axes: Sequence[int] | None = None, out: Any = None) -> Any:
    """a with its axes permuted (reversed by default): a view, or written into `out`.

    >>> import numpy as np
    >>> transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    backend, (x,) = placed("transpose", (a,))
    if backend is None and not isinstance(a, Traced):
        x = as_ndarray(a, "transpose", 0)
    try:
        given = range(x.ndim - 1, -1, -1) if axes is None else axes
        perm = tuple(int(p.__index__()) for p in given)
    except (TypeError, AttributeError):
        raise CallError(f"transpose(axes={axes!r:.60}): give a list of axes") from None
    perm = tuple(axis + x.ndim if axis < 0 else axis for axis in perm)
    if sorted(perm) != list(range(x.ndim)):
        raise ShapeError(f"transpose: axes {axes} are no permutation of the {x.ndim} axes of a")
    with spoken_for("transpose"):
        result = einsum(x, list(range(x.ndim)), list(perm), out=out, casting="same_kind")
    if out is None and x.ndim == 0 and not isinstance(x, Traced):
        result = x.view()
    if backend is not None:
        return returned(backend, result, (a,), out)
    return to_torch(result) if out is None and is_torch(a) else result


def ncon(
    tensors: Sequence[Any],
    connects: Sequence[Iterable[int]],
    con_order: Sequence[int] | None = None,
    out_order: Sequence[int] | None = None,
    *,
    strip_exponent: bool = False,
) -> Any:
    """Contract a network given by numbered legs: positive ones are joined, negative ones stay open.

    Each positive label stands on exactly two legs; the result's axes are -1, -2, ... in this order.

    Args:
        tensors: arrays.
        connects: for each tensor the labels of its axes; for a single tensor a flat list will do.
        con_order: positive labels in the order to contract them (labels shared by the same two
            tensors go together); default: the planner's order.
        out_order: negative labels in the order of the result's axes.
        strip_exponent: return (mantissa, exponent), as in `einsum`.

    Source of the notation: R. N. C. Pfeifer, G. Evenbly, S. Singh, G. Vidal, arXiv:1402.0939.

    >>> import numpy as np
    >>> a, b = np.ones((2, 3)), np.ones((3, 4))
    >>> ncon([a, b], [[-1, 1], [1, -2]]).shape
    (2, 4)
    """
    if hasattr(tensors, "ndim") or not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    try:
        if len(tensors) == 1 and all(map(_is_index, connects)):
            connects = [connects]  # type: ignore[list-item]
        terms = [tuple(index(label) for label in term) for term in connects]
        order = [] if con_order is None else [index(label) for label in con_order]
        output = () if out_order is None else tuple(index(label) for label in out_order)
    except TypeError:
        raise CallError(
            "ncon: give a list of integer labels for each tensor, and lists of them as con_order and "
            "out_order"
        ) from None
    if len(terms) != len(tensors):
        raise SubscriptError(f"ncon: {len(tensors)} tensors, but labels for {len(terms)}")
    joined, open_ = _legs(terms)
    _check_sizes(tensors, terms)
    output = open_ if out_order is None else output
    if sorted(output) != sorted(open_):
        raise SubscriptError(
            f"ncon: out_order {list(output)} is not an order of the open legs {list(open_)}"
        )
    optimize: Any = "auto"
    if con_order is not None:
        if sorted(order) != sorted(joined):
            raise SubscriptError(
                f"ncon: con_order {order} is not an order of the joined legs {joined}"
            )
        optimize = list(_path_of(terms, order)) if len(terms) > 1 else "auto"
    arguments = [item for pair in zip(tensors, terms, strict=True) for item in pair]
    with spoken_for("ncon"):
        return einsum(*arguments, output, optimize=optimize, strip_exponent=strip_exponent)


def _check_sizes(tensors: Sequence[Any], terms: list[tuple[int, ...]]) -> None:
    """Both legs of a label have the same size; unlike in einsum, nothing broadcasts."""
    sizes: dict[int, int] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        for label, n in zip(term, _shape(tensor), strict=False):  # einsum tells of missing labels
            if differ(sizes.setdefault(label, n), n):
                raise ShapeError(f"ncon: label {label} joins legs of sizes {sizes[label]} and {n}")


def _legs(terms: list[tuple[int, ...]]) -> tuple[list[int], tuple[int, ...]]:
    """Positive labels, and negative ones as -1, -2, ...; each is checked to occur as often as it must."""
    counts: dict[int, int] = {}
    for term in terms:
        for label in term:
            counts[label] = counts.get(label, 0) + 1
    for label, count in counts.items():
        if label == 0 or count != (2 if label > 0 else 1):
            raise SubscriptError(
                f"ncon: label {label} stands on {count} legs; positive labels join two legs, negative "
                f"ones are open and stand on one, 0 is none"
            )
    joined = sorted(label for label in counts if label > 0)
    open_ = tuple(sorted((label for label in counts if label < 0), reverse=True))
    if open_ != tuple(range(-1, -len(open_) - 1, -1)):
        raise SubscriptError(
            f"ncon: the open legs {list(open_)} should be -1, -2, ... without gaps"
        )
    return joined, open_


def _path_of(terms: list[tuple[int, ...]], order: list[int]) -> Path:
    """Contract the two tensors that share the next label; what stays disconnected goes last."""
    owner: dict[int, list[int]] = {}
    for tensor, term in enumerate(terms):
        for label in term:
            owner.setdefault(label, []).append(tensor)
    parent = list(range(len(terms)))
    steps: list[tuple[int, ...]] = []

    def root(tensor: int) -> int:
        while parent[tensor] != tensor:
            parent[tensor] = parent[parent[tensor]]  # halves the way for whoever comes next
            tensor = parent[tensor]
        return tensor

    def join(a: int, b: int) -> None:
        if a != b:
            new = len(parent)
            parent.append(new)
            parent[a] = parent[b] = new
            steps.append((a, b))

    for label in order:
        a, b = owner[label]
        join(root(a), root(b))
    roots = [tensor for tensor in range(len(parent)) if parent[tensor] == tensor]
    last = len(parent) - 1 if steps else 0
    for tensor in roots:
        if root(tensor) != root(last):
            join(root(last), root(tensor))
    return ContractionTree(len(terms), tuple(steps)).path


def _paired_axes(axes: Any, a_ndim: int, b_ndim: int) -> tuple[list[int], list[int]]:
    try:
        if _is_index(axes):
            count = index(axes)
            if not 0 <= count <= min(a_ndim, b_ndim):
                raise ShapeError(f"tensordot: axes={count}, but a has {a_ndim} axes and b {b_ndim}")
            return list(range(a_ndim - count, a_ndim)), list(range(count))
        left, right = ([x] if _is_index(x) else list(x) for x in axes)
        left, right = [index(x) for x in left], [index(x) for x in right]
    except (TypeError, ValueError) as error:
        if isinstance(error, ShapeError):
            raise
        raise CallError(
            f"tensordot(axes={axes!r:.60}): give a number of axes, or two lists of axes"
        ) from None
    for name, side, ndim in (("a", left, a_ndim), ("b", right, b_ndim)):
        if any(not -ndim <= axis < ndim for axis in side) or len({x % ndim for x in side}) != len(
            side
        ):
            raise ShapeError(
                f"tensordot: axes {side} of {name} are out of range or repeat ({ndim} axes)"
            )
    if len(left) != len(right):
        raise ShapeError(f"tensordot: {len(left)} axes of a, but {len(right)} of b")
    return [x % a_ndim for x in left], [x % b_ndim for x in right]


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _is_index(x: Any) -> bool:
    """Whether this is one integer; arrays have `__index__` as well."""
    return hasattr(x, "__index__") and not getattr(x, "ndim", 0)
