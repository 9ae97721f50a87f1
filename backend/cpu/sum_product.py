"""Any number of operands in one step, without intermediates: blocks of bounded scratch.

The labels are split into outer ones, looped over, and inner ones that make up a block, one of them
perhaps in pieces; a block's product is formed by broadcasting and added into the output. This is what
`optimize=False` means:
the work of the naive sum, with memory bounded by the block.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes

BLOCK = 1 << 18  # elements of a block


def bind_blocks(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for `sum_product` of these shapes."""
    terms, kept = attrs["terms"], attrs["output"]
    sizes = {
        label: n
        for term, spec in zip(terms, inputs, strict=True)
        for label, n in zip(term, spec.shape, strict=True)
    }
    outer, inner, cut = _split(sizes, kept)
    views = [_BlockView(term, sizes, outer, inner) for term in terms]
    block_shape = tuple(sizes[label] for label in inner)
    cut_axis, length, step = (
        (0, 1, 1) if cut is None else (inner.index(cut[0]), sizes[cut[0]], cut[1])
    )
    summed_axes = tuple(axis for axis, label in enumerate(inner) if label not in kept)
    left = [label for label in inner if label in kept]  # labels of a block after summing
    to_output = tuple(left.index(label) for label in kept if label in left)
    accumulates = any(label not in kept for label in (*outer, *(cut or ())[:1]))
    zero = np.zeros((), output.dtype)

    def run(*operands: Any, out: Any = None) -> Any:
        target = np.empty(output.shape, output.dtype) if out is None else out
        if accumulates or 0 in sizes.values():
            target[...] = zero
        blocks = [view.of(x) for view, x in zip(views, operands, strict=True)]
        walk = (*(range(sizes[label]) for label in outer), range(0, length, step))
        for *position, start in itertools.product(*walk):
            at: dict[int, Any] = dict(zip(outer, position, strict=True))
            shape = block_shape
            if cut is not None:
                at[cut[0]] = piece = slice(start, min(start + step, length))
                ahead, behind = block_shape[:cut_axis], block_shape[cut_axis + 1 :]
                shape = (*ahead, piece.stop - start, *behind)
            product: Any = None
            for view, block in zip(views, blocks, strict=True):
                part = block[tuple(at[label] for label in view.outer)]
                if cut is not None and part.shape[cut_axis] == length:
                    part = part[(slice(None),) * cut_axis + (piece,)]
                product = part if product is None else np.multiply(product, part)
            product = np.broadcast_to(product, shape)
            if summed_axes:
                product = np.add.reduce(product, axis=summed_axes, dtype=output.dtype)
            spot = (*(at.get(label, slice(None)) for label in kept), ...)
            if accumulates:
                target[spot] += np.transpose(product, to_output)
            else:
                target[spot] = np.transpose(product, to_output)
        return target

    return run


def scratch_bytes(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
    """Upper bound: two products of a block, and operands packed for their blocks."""
    sizes: dict[int, int] = {}
    for term, spec in zip(attrs["terms"], inputs, strict=True):
        sizes.update(zip(term, spec.shape, strict=True))
    block = min(BLOCK, math.prod(sizes.values()))
    return 2 * block * inputs[0].dtype.itemsize + sum(x.nbytes for x in inputs)


def _split(
    sizes: dict[int, int], kept: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int] | None]:
    """Outer and inner labels, and the inner one that is cut with the size of its pieces.

    Summed labels go inside first, since they need no output block; the first label that does not fit
    is cut into pieces that fill the block.
    """
    order = [label for label in sizes if label not in kept] + list(reversed(kept))
    inner: list[int] = []
    cut: tuple[int, int] | None = None
    room = BLOCK
    for label in order:
        if sizes[label] <= room:
            inner.append(label)
            room //= max(1, sizes[label])
        elif cut is None and room > 1:
            inner.append(label)
            cut, room = (label, room), 1
    return tuple(label for label in order if label not in inner), tuple(inner), cut


class _BlockView:
    """An operand with its outer labels ahead and one axis for each inner label, of size 1 if absent."""

    def __init__(
        self, term: Axes, sizes: dict[int, int], outer: tuple[int, ...], inner: tuple[int, ...]
    ) -> None:
        self.outer = tuple(label for label in outer if label in term)
        ahead = [term.index(label) for label in self.outer]
        self.perm = (*ahead, *(term.index(label) for label in inner if label in term))
        self.shape = (
            *(sizes[label] for label in self.outer),
            *(sizes[label] if label in term else 1 for label in inner),
        )

    def of(self, x: Any) -> Any:
        return x.transpose(self.perm).reshape(self.shape)
