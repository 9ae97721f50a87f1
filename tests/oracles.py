"""What an einsum means, in a few lines slow enough to be believed, and the check against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from tests.tolerance import assert_close, tolerance

if TYPE_CHECKING:
    from tests.cases import Case

Labels = tuple[Hashable, ...]

numpy_einsum = np.einsum  # kept before a test can replace it


def label_sizes(inputs: Sequence[Labels], shapes: Iterable[tuple[int, ...]]) -> dict[Hashable, int]:
    """Size of every label; a label of size 1 in one operand takes its size from another."""
    sizes: dict[Hashable, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return sizes


def einsum_oracle(
    inputs: Sequence[Labels],
    output: Labels,
    arrays: Sequence[np.ndarray],
    dtype: DTypeLike | None = None,
) -> np.ndarray:
    """out[output] = sum over all values of all labels of the product of arrays[k][inputs[k]].

    Integers and booleans are Python's own, masked at the end; floats are long doubles. A label
    twice in an input walks its diagonal, twice in the output fills a diagonal.
    """
    dtype = np.dtype(np.result_type(*arrays) if dtype is None else dtype)
    wide = {"b": object, "i": object, "u": object, "c": np.clongdouble}.get(
        dtype.kind, np.longdouble
    )
    sizes = label_sizes(inputs, [array.shape for array in arrays])
    factors = [
        np.broadcast_to(array.astype(dtype).astype(wide), [sizes[label] for label in labels])
        for labels, array in zip(inputs, arrays, strict=True)
    ]
    total = np.zeros([sizes[label] for label in output], wide)
    for values in product(*map(range, sizes.values())):
        at = dict(zip(sizes, values, strict=True))
        total[tuple(at[label] for label in output)] += math.prod(
            factor[tuple(at[label] for label in labels)]
            for labels, factor in zip(inputs, factors, strict=True)
        )
    return wrap(total, dtype)


def wrap(total: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Exact sums as numbers of dtype: integers modulo 2**bits, booleans by 'any'."""
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        return np.asarray(total % 2**bits, dtype=f"u{dtype.itemsize}").view(dtype)
    return total.astype(dtype)


def check(
    einsum: Callable[..., Any],
    case: Case,
    optimize: Iterable[Any] = ("auto",),
    against_numpy: bool = True,
    in_place: bool = True,
) -> None:
    """Assert that `einsum` gives on a case what the definition, and NumPy where it can, give.

    Results that were brought to the host (not `in_place`) are views of nothing.
    """
    operands = case.operands()
    inputs, output = case.labels
    compute, result = case.compute_dtype, case.result_dtype
    want = einsum_oracle(inputs, output, operands, compute).astype(result)
    sizes = label_sizes(inputs, case.shapes)
    terms = math.prod(size for label, size in sizes.items() if label not in output)
    inexact = compute.kind not in "biu"
    scale = np.ones(want.shape, np.longdouble)
    if inexact:
        magnitudes = [abs(operand.astype(compute)) for operand in operands]
        scale = einsum_oracle(inputs, output, magnitudes, np.longdouble)

    def agree(got: Any, accumulate: DTypeLike | None = None) -> None:
        assert np.shape(got) == want.shape, f"shape {np.shape(got)}, not {want.shape}"
        if inexact:
            rounding = [tolerance(d, terms, len(operands), accumulate) for d in (compute, result)]
            assert_close(got, want, scale, sum(rounding))
        else:
            np.testing.assert_array_equal(got, want)

    for how in optimize:
        before = [operand.tobytes() for operand in operands]
        out = case.out_array()
        try:
            got = einsum(*case.arguments(operands), **case.keywords(out), optimize=how)
            assert [operand.tobytes() for operand in operands] == before, "an input was modified"
            assert_kind(case, got, operands, out, in_place)
            agree(got)
        except Exception as error:
            error.add_note(f"optimize={how!r}\n{case}")
            raise
    if against_numpy and case.numpy_can:
        reference = numpy_einsum(*case.arguments(operands), **case.keywords(case.out_array()))
        assert reference.dtype == np.asarray(got).dtype, f"NumPy gives {reference.dtype}\n{case}"
        agree(reference, accumulate=compute if inexact else None)


def assert_kind(
    case: Case, got: Any, operands: Sequence[np.ndarray], out: Any, in_place: bool = True
) -> None:
    """Assert dtype and shape, scalar or array, view or new, memory order."""
    if out is not None:
        assert got is out, "the result is not the `out` that was given"
        return
    swapped = case.is_view and not operands[0].dtype.isnative  # may stay as it is or be converted
    dtype = got.dtype.newbyteorder("=") if swapped else got.dtype
    assert dtype == case.result_dtype, f"dtype {got.dtype}, not {case.result_dtype}"
    if got.shape == ():
        assert isinstance(got, np.generic), f"{type(got)}, not a NumPy scalar"
        return
    assert type(got) is np.ndarray, type(got)
    if swapped:
        return
    if case.is_view and not in_place:
        return
    if got.size:
        shares = any(np.may_share_memory(got, operand) for operand in operands)
        assert shares == case.is_view, f"{'a' if shares else 'no'} view of an input"
    if case.is_view:
        assert got.flags.writeable == operands[0].flags.writeable, "writeable differs from input"
    elif case.order in ("C", "F"):
        assert got.flags[f"{case.order}_CONTIGUOUS"], f"not in order {case.order}"
