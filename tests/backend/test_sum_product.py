"""`sum_product`: any number of operands, in blocks of bounded size."""

from __future__ import annotations

import math
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.calls import (
    LAYOUTS,
    OUT_LAYOUTS,
    SUM_PRODUCTS,
    junk,
    layouts_of,
    operands,
    terms,
)
from tests.backend.laws import assert_means

from einloom.backend.cpu import cpu, sum_product
from einloom.backend.spec import dtype_from_name

BACKEND = cpu()
BLOCKS = (1, 2, 5, 6, 64)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", sorted(BACKEND.capabilities()["sum_product"]))
def test_blocks(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Whatever fits into a block: outer labels are looped over, sums accumulate."""
    monkeypatch.setattr(sum_product, "BLOCK", block)
    dtype = dtype_from_name(name)
    for k, call in enumerate(SUM_PRODUCTS):
        output = call.output(dtype)
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(dtype), (output,))
        layouts, outs = layouts_of(dtype, LAYOUTS), layouts_of(dtype, OUT_LAYOUTS)
        arrays = operands(call, dtype, layouts[k % len(layouts)], rng)
        out = junk(output, outs[k % len(outs)], rng)
        try:
            assert_means(kernel(*arrays), call.op, call.attrs, arrays, output)
            assert kernel(*arrays, out=out) is out
            assert_means(out, call.op, call.attrs, arrays, output)
        except AssertionError as error:
            error.add_note(f"{call}, block {block}")
            raise


@settings(max_examples=100)
@given(st.data(), st.integers(0, 2**32 - 1), st.integers(1, 50))
def test_any_terms(data: st.DataObject, seed: int, block: int) -> None:
    """One to four operands over up to five labels of size 0 to 4; int64 wraps."""
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=5, max_size=5))
    letters = st.lists(st.sampled_from(string.ascii_lowercase[:5]), unique=True, max_size=3)
    inputs = data.draw(st.lists(letters.map("".join), min_size=1, max_size=4))
    known = sorted(set("".join(inputs)))
    output = "".join(data.draw(st.permutations(known)))[: data.draw(st.integers(0, len(known)))]
    size = dict(zip(string.ascii_lowercase, sizes, strict=False))
    call = terms(output, *((term, tuple(size[x] for x in term)) for term in inputs))
    arrays = operands(call, "int64", "transposed", np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_product, "BLOCK", block)
        got = BACKEND.apply(call.op, call.attrs, *arrays)
    assert_means(got, call.op, call.attrs, arrays, call.output(np.dtype("int64")))


SIZES = {0: 3, 1: 4, 2: 5, 3: 1, 4: 7}


@pytest.mark.parametrize("block", [*BLOCKS, 500])
@pytest.mark.parametrize("kept", [(), (0,), (4, 2), (3, 1, 0, 4, 2)], ids=str)
def test_blocks_are_full_and_not_too_large(
    kept: tuple[int, ...], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each label is inside or outside, and there are few blocks: one is at least half full."""
    monkeypatch.setattr(sum_product, "BLOCK", block)
    outer, inner, cut = sum_product._split(SIZES, kept)
    assert sorted(outer + inner) == sorted(SIZES)
    pieces = SIZES | dict([cut] if cut else [])
    assert cut is None or cut[0] in inner
    size = math.prod(pieces[label] for label in inner)
    assert min(math.prod(SIZES.values()), block // 2 + 1) <= size <= block


def test_one_long_label(rng: np.random.Generator) -> None:
    """Previously failed, by taking ten seconds: a label longer than a block was walked one by one."""
    n = 3 * sum_product.BLOCK + 1
    x, y, z = rng.integers(-9, 9, (3, n))
    for output, want in (((0,), x * y * z), ((), (x * y * z).sum())):
        attrs = {"terms": ((0,),) * 3, "output": output}
        np.testing.assert_array_equal(BACKEND.apply("sum_product", attrs, x, y, z), want)
