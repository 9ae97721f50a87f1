"""Plan -> Program: every step of the tree becomes reductions and one `dot_general`.

Labels of size 1 vanish at the door (their axes are squeezed away) and come back in the result, so
that no intermediate has more axes than labels of size >= 2. A label that only one operand of a step
carries, and nobody after it, is summed before the product; labels of both operands that stay are
batch axes; the rest of the shared ones are contracted. Operands are converted to the dtype of
computation (float32 for the half precisions) before anything is added; only a single product of half
precisions stays as it is, since its kernel adds up in float32 and rounds once. Real operands stay real beside
complex ones.

A sliced label is a static index: every operand that carries it is cut at that position first, and
the program gives what one slice contributes to the result.

With its exponent kept apart, every tensor is normalised by a power of two before it is multiplied:
`program.scaling` says how. Operands are just before their step, so that few copies of them are alive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend.dtypes import class_of, real_of
from ..backend.spec import Axes, compute_dtype, dtype_name
from ..program.builder import Builder
from ..program.ir import At, Program
from ..program.scaling import Scaling
from .cost import Labels, StepLabels, walk
from .network import Network
from .roles import is_better_swapped, roles
from .tree import ContractionTree

Tensor = tuple[int, Axes]
"""A slot and the labels of its axes, those of size 1 left out."""


def lower(
    network: Network,
    tree: ContractionTree,
    dtypes: Sequence[np.dtype[np.generic]],
    dtype: np.dtype[np.generic],
    conj: frozenset[int] = frozenset(),
    sliced: Axes = (),
    layouts: Sequence[Axes | None] = (),
    strip_exponent: bool = False,
) -> Program:
    """The program that contracts `network` along `tree` with operands of `dtypes` to `dtype`.

    With labels sliced it is that of one slice: static index k is the value of label sliced[k], and the
    result has no axis of it. What must still be added up has the dtype of computation.

    With `strip_exponent` the program has two results, a mantissa and a float64 without axes: an exponent of
    ten; or of two for a slice, whose mantissa has the dtype of computation.
    """
    build = Builder()
    inputs = [
        build.input(given, shape, layout)
        for given, shape, layout in zip(
            dtypes, network.shapes, layouts or [None] * len(dtypes), strict=True
        )
    ]
    view, whole = is_view(network) and not strip_exponent, network
    if sliced:
        network = whole.slice(sliced)
        at = {x: build.index(whole.name(x), whole.extents[x]) for x in sliced}
        inputs = [_cut(build, whole, operand, slot, at) for operand, slot in enumerate(inputs)]
    if (len(inputs) > 1 or strip_exponent) and 0 in network.extents:
        results = [_zeros(build, network, dtype)]
        if strip_exponent:
            results.append(build("constant", value=0, dtype="float64"))
        return build.finish(*results)
    wide = compute_dtype(dtype)
    scaling = Scaling(build, wide) if strip_exponent else None
    if not whole.open.issuperset(sliced):
        dtype = wide
    if (
        dtype != wide
        and {*dtypes} == {dtype}
        and scaling is None
        and _is_one_product(network, tree)
    ):
        wide = dtype
    tensors: dict[int, Tensor] = {}
    for operand, slot in enumerate(inputs):
        tensor = _squeezed(build, network, operand, slot)
        if not view:
            mixes = len(inputs) > 1 and scaling is None
            own = _computed(dtypes[operand], wide) if mixes else wide
            tensor = (build.convert(tensor[0], own), tensor[1])
        is_complex = build.spec(tensor[0]).dtype.kind in "cO"
        if operand in conj and is_complex and scaling is None:
            tensor = (build("conj", tensor[0]), tensor[1])
        tensors[operand] = tensor
    wanted = tuple(x for x in dict.fromkeys(network.output_axes) if network.extents[x] > 1)
    last = len(tree.ssa_path) - 1
    for index, (step, labels) in enumerate(zip(tree.ssa_path, walk(network, tree), strict=True)):
        operands = [tensors.pop(tensor) for tensor in step]
        if scaling is not None:
            operands = [(scaling.normalised(slot), axes) for slot, axes in operands]
            if wide.kind == "c":  # normalised first: the product reads the conjugate alone
                operands = [
                    (build("conj", slot) if tensor in conj else slot, axes)
                    for tensor, (slot, axes) in zip(step, operands, strict=True)
                ]
        order = wanted if index == last else ()
        tensors[tree.n + index] = _step(build, operands, labels, order, wide)
    slot, kept = tensors[tree.n + last]
    if scaling is not None:
        slot, exponent = scaling.binary(slot) if sliced else scaling.decimal(slot)
        slot = slot if sliced else build.convert(slot, dtype)
        return build.finish(_delivered(build, network, (slot, kept)), exponent)
    slot = build.convert(slot, dtype)
    if len(inputs) == 1 and not view and not sliced and not build.is_fresh(slot):
        slot = build("copy", slot)  # a sum over axes of size 1 moves nothing, but is no view either
    return build.finish(_delivered(build, network, (slot, kept)))


def is_view(network: Network) -> bool:
    """One operand, nothing summed or embedded: the result is a view of it, as in numpy.einsum."""
    return (
        len(network.terms) == 1
        and all(label in network.open for label in network.terms[0])
        and len(network.open) == len(network.output_axes)
    )


def _is_one_product(network: Network, tree: ContractionTree) -> bool:
    """Two operands, of which no label is summed ahead."""
    if len(network.terms) != 2:
        return False
    (labels,) = walk(network, tree)
    lhs, rhs = labels.operands
    return all(x in labels.result or network.extents[x] == 1 for x in lhs ^ rhs)


def _cut(build: Builder, network: Network, operand: int, slot: int, at: dict[int, At]) -> int:
    """An operand at one position of every sliced label; axes that broadcast are squeezed away."""
    term, shape = network.terms[operand], network.shapes[operand]
    for axis in reversed(range(len(term))):
        if term[axis] in at:
            where = at[term[axis]] if shape[axis] > 1 else 0
            slot = build("slice_at", slot, axis=axis, at=where)
    return slot


def _squeezed(build: Builder, network: Network, operand: int, slot: int) -> Tensor:
    """Without axes of size 1, and with the diagonal of labels that repeat."""
    term, shape = network.terms[operand], network.shapes[operand]
    ones = tuple(axis for axis, n in enumerate(shape) if n == 1)
    if ones:
        slot = build("squeeze", slot, axes=ones)
    labels = tuple(label for label, n in zip(term, shape, strict=True) if n != 1)
    for label in dict.fromkeys(labels):
        axes = tuple(axis for axis, other in enumerate(labels) if other == label)
        if len(axes) > 1:
            slot = build("extract_diagonal", slot, axes=axes)
            labels = tuple(other for axis, other in enumerate(labels) if axis not in axes[1:])
    return slot, labels


def _computed(given: np.dtype[np.generic], wide: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype in which an operand is computed with: a real one is not made complex."""
    is_real = class_of(given) in ("bool", "int", "uint", "float")
    return real_of(wide) if is_real and wide.kind == "c" else wide


def _step(
    build: Builder,
    operands: list[Tensor],
    labels: StepLabels,
    order: Axes,
    wide: np.dtype[np.generic],
) -> Tensor:
    if len(operands) == 1:
        return _reduced(build, operands[0], labels.result)
    if len(operands) > 2:
        result = _ordered(operands, labels.result, order)
        terms = tuple(axes for _, axes in operands)
        slots = (build.convert(slot, wide) for slot, _ in operands)
        return build("sum_product", *slots, terms=terms, output=result), result
    lhs = _reduced(build, operands[0], labels.result | labels.operands[1])
    rhs = _reduced(build, operands[1], labels.result | labels.operands[0])
    left, right = (build.spec(slot).dtype.kind == "c" for slot, _ in (lhs, rhs))
    # beside a real operand, a complex one on the right can be written where it belongs
    if (
        (left and not right)
        if left != right and not order
        else is_better_swapped(lhs[1], rhs[1], order)
    ):
        lhs, rhs = rhs, lhs
    return _product(build, lhs, rhs, labels.result)


def _reduced(build: Builder, tensor: Tensor, kept: Labels) -> Tensor:
    """Sum over the labels that nobody needs any more."""
    slot, labels = tensor
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if not axes:
        return tensor
    return build("reduce_sum", slot, axes=axes), tuple(x for x in labels if x in kept)


def _product(build: Builder, lhs: Tensor, rhs: Tensor, result: Labels) -> Tensor:
    """One dot_general."""
    (left, left_labels), (right, right_labels) = lhs, rhs
    batch, rows, columns, contracted = roles(left_labels, right_labels, result)
    slot = build(
        "dot_general",
        left,
        right,
        batch=(_axes(batch, left_labels), _axes(batch, right_labels)),
        contracting=(_axes(contracted, left_labels), _axes(contracted, right_labels)),
    )
    return slot, batch + rows + columns


def _ordered(operands: list[Tensor], result: Labels, order: Axes) -> Axes:
    if order:
        return order
    seen = dict.fromkeys(label for _, axes in operands for label in axes)
    return tuple(label for label in seen if label in result)


def _delivered(build: Builder, network: Network, tensor: Tensor) -> int:
    """The result, its axes in the order asked for, size-1 and repeated axes included."""
    slot, labels = tensor
    unique = tuple(dict.fromkeys(network.output_axes))
    slot = build.transpose(slot, _axes(tuple(x for x in unique if x in labels), labels))
    ones = tuple(axis for axis, label in enumerate(unique) if label not in labels)
    if ones:
        slot = build("expand_dims", slot, axes=ones)
    for label in unique:
        copies = network.output_axes.count(label) - 1
        if copies:
            slot = build("embed_diagonal", slot, axis=unique.index(label), copies=copies)
    if len(unique) == len(network.output_axes):
        return slot
    at = [*unique]  # embed_diagonal appends its copies, label by label
    for label in unique:
        at += [label] * (network.output_axes.count(label) - 1)
    perm: list[int] = []
    for label in network.output_axes:
        perm.append(next(axis for axis, x in enumerate(at) if x == label and axis not in perm))
    return build.transpose(slot, tuple(perm))


def _zeros(build: Builder, network: Network, dtype: np.dtype[np.generic]) -> int:
    """A label of size 0 leaves nothing to add, or a result without elements."""
    shape = tuple(network.extents[label] for label in network.output_axes)
    zero = build("constant", value=0, dtype=dtype_name(dtype))
    return build("copy", build("broadcast_in_dim", zero, shape=shape, axes=()))


def _axes(labels: Axes, of: Axes) -> Axes:
    return tuple(of.index(label) for label in labels)
