"""An Expression contracts arrays of the shapes and dtypes it was compiled for, no others."""

from __future__ import annotations

import math
import pickle
import random
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.cases import CORPUS, Case
from tests.names import said
from tests.networks import chain, random_networks
from tests.oracles import einsum_oracle

import einloom
from einloom import (
    CallError,
    ConversionError,
    DTypeError,
    Expression,
    Network,
    OptionError,
    ShapeError,
)
from einloom._base.options import SMALL

R = np.random.default_rng(5)
A, B, C = (R.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2)))
Z = A + 1j * A[::-1]


def matmul(**keywords: Any) -> Expression:
    return einloom.compile("ij,jk->ik", A, B, **keywords)


# Running ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("heading", [h for h in CORPUS if h != "previously failed"])
def test_the_corpus_by_expressions(heading: str) -> None:
    """Compiled once and called twice, as einsum would; the second call finds nothing changed."""
    for case in CORPUS[heading]:
        operands = case.operands()
        embeds = {"embed_diagonal": True} if case.embeds else {}
        expression = einloom.compile(*case.arguments(operands), **embeds)
        want = einloom.einsum(*case.arguments(operands), **case.keywords())
        for _ in range(2):
            got = expression(*operands)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype
        assert type(got) is type(want)
        assert np.array_equal(expression(*operands, alpha=2), 2 * want)


def test_forms_of_compile() -> None:
    want = A @ B
    plan = einloom.plan("ij,jk->ik", A, B)
    network = Network(["ij", "jk"], "ik", {"i": 3, "j": 4, "k": 5})
    for expression in (
        einloom.compile("ij,jk->ik", A, B),
        einloom.compile("ij,jk->ik", A.shape, B.shape),
        einloom.compile("ij,jk->ik", A, B.shape),
        einloom.compile("ij,jk->ik", A.tolist(), B),
        einloom.compile(A, [0, 1], B, [1, 2], [0, 2]),
        einloom.compile(A.shape, "ij", B.shape, "jk"),
        einloom.compile(network),
        einloom.compile(network, A, B),
        einloom.compile(plan),
        einloom.compile("(ij,jk)->ik", A, B, objective="size", seed=3),
    ):
        np.testing.assert_allclose(expression(A, B), want)
        assert repr(expression) == "<Expression of 2 arrays, 1 instructions>"


def test_any_arrays_of_the_right_kind() -> None:
    """Any strides, lists, subclasses, read-only; the arrays are not modified."""
    wide = np.zeros((6, 8))
    wide[::2, ::2] = A
    frozen = A.copy()
    frozen.flags.writeable = False
    for a in (A, np.asfortranarray(A), wide[::2, ::2], A[::-1][::-1], A.tolist(), frozen):
        np.testing.assert_allclose(matmul()(a, B), A @ B)
    subclass = A.view(type("Sub", (np.ndarray,), {}))
    assert type(matmul()(subclass, B)) is np.ndarray


def test_order_and_conj() -> None:
    assert matmul(order="F")(A, B).flags.f_contiguous
    assert matmul(order="C")(A, B).flags.c_contiguous
    expression = einloom.compile("ij,kj->ik", Z, Z, conj=[1])
    np.testing.assert_allclose(expression(Z, Z), Z @ Z.conj().T)


def test_dtype() -> None:
    expression = einloom.compile("ij,jk->ik", A.shape, B.shape, dtype="f4")
    assert expression(A.astype("f4"), B.astype("f4")).dtype == np.float32
    wide = einloom.compile("ij,jk->ik", A.astype("f4"), B.astype("f4"), dtype="f8")
    assert wide(A.astype("f4"), B.astype("f4")).dtype == np.float64


def test_scalars_and_views() -> None:
    assert isinstance(einloom.compile("i,i->", (3,), (3,))(np.ones(3), np.ones(3)), np.float64)
    assert np.shares_memory(einloom.compile("ij->ji", A)(A), A)
    assert np.shares_memory(einloom.compile("ij->ij", A)(A), A)
    assert einloom.compile("ij->ij", A)(A) is not A
    assert einloom.compile("", ())(np.float64(3)) == 3


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
    expression = einloom.compile("ij,jk->ik", a, b)
    got = expression(a, b)
    assert got.dtype == ml_dtypes.bfloat16
    exact = a.astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(got.astype("f8"), exact, rtol=2**-8, atol=2**-20)
    by_name = einloom.compile("ij,jk->ik", a.shape, b.shape, dtype="bfloat16")
    assert by_name.plan == expression.plan
    again = pickle.loads(pickle.dumps(expression))
    np.testing.assert_array_equal(again(a, b), got)


def test_float16_is_summed_in_float32() -> None:
    ones = np.ones(2**14, "f2")
    assert einloom.compile("i,i->", ones, ones)(ones, ones) == 2**14
    thirds = np.full(3000, 1 / 3, "f2")
    total = einloom.compile("i->", thirds)(thirds)
    assert total.dtype == np.float16
    assert total == np.float16(thirds.astype("f8").sum())


# What it refuses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "error", "says"),
    [
        ((), ShapeError, "takes 2 arrays, got 0"),
        ((A,), ShapeError, "takes 2 arrays, got 1"),
        ((A, B, C), ShapeError, "takes 2 arrays, got 3"),
        ((A.T, B), ShapeError, "operand 0 has shape (4, 3), compiled for (3, 4)"),
        ((A, B[:, :1]), ShapeError, "operand 1 has shape (4, 1), compiled for (4, 5)"),
        ((A, B[0]), ShapeError, "operand 1 has shape (5,)"),
        ((A, 3.0), ShapeError, "operand 1 has shape ()"),
        ((A.astype("f4"), B), DTypeError, "operand 0 has dtype float32, compiled for float64"),
        ((A, B.astype(int)), DTypeError, "operand 1 has dtype int64"),
        ((A, B + 0j), DTypeError, "operand 1 has dtype complex128"),
        ((A, np.ma.masked_array(B, B > 0)), ConversionError, "mask"),
        ((A, [[1.0], [1.0, 2.0]]), ConversionError, "operand 1"),
    ],
)
def test_other_arrays(arrays: Any, error: type[Exception], says: str) -> None:
    before = A.copy()
    for call in (matmul(), matmul().explain)[: 2 if arrays else 1]:
        with pytest.raises(error) as caught:
            call(*arrays)
        assert says in str(caught.value)
    np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "says"),
    [
        ((), {}, TypeError, "equation"),
        (("ij,jk",), {}, einloom.SubscriptError, "compile: give subscripts"),
        (("ij,jk", A), {}, einloom.SubscriptError, "2 operands, got 1"),
        (("ij,jk", A, A), {}, ShapeError, "'j'"),
        (("ij,jk", A, (4.0, 5)), {}, CallError, "a tuple is a shape"),
        (("ij,jk", A, (4, -5)), {}, CallError, "a tuple is a shape"),
        (("ij,jk", A, (True, 5)), {}, CallError, "a tuple is a shape"),
        (("ij,jk", A, B), {"device": "cuda"}, OptionError, "device='cuda'"),
        (("ij,jk", A, B), {"dtype": "float99"}, DTypeError, "float99"),
        (("ij,jk", A, B), {"dtype": "U3"}, DTypeError, "U3"),
        (("ij,jk", A, B.astype(str)), {}, DTypeError, "operand 1"),
        (("ij,jk", A, B), {"memory_limit": 1}, einloom.MemoryLimitError, "1 B"),
        (("ij,jk", A, B), {"planner": "best"}, OptionError, "'best'"),
        (("ij,jk", A, B * 1j), {"dtype": "f8"}, DTypeError, "complex128"),
        (("ij,jk", A, B), {"dtype": "i8"}, DTypeError, "float64"),
        (("ij,jk", A, B), {"no_such_keyword": 1}, CallError, "no_such_keyword"),
        (("ij,jk", A, B), {"optimize": "greedy"}, CallError, "give planner="),
        (("ij,jk", A, B), {"minimize": "flops"}, CallError, "give objective="),
        ((einloom.plan("ij,jk", A, B), A, B), {}, CallError, "give it alone"),
        ((einloom.plan("ij,jk", A, B),), {"dtype": "f4"}, CallError, "give it alone"),
        ((einloom.plan("ij,jk", A, B),), {"planner": "greedy"}, CallError, "give it alone"),
    ],
)
def test_compile_errors(
    arguments: Any, keywords: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match="compile") as caught:
        einloom.compile(*arguments, **keywords)
    assert says in str(caught.value)


# out, alpha, beta -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->ki", "ij,jk->", "ij,jk->i", "ij,jk->jik"])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out(text: str, layout: str) -> None:
    expression = einloom.compile(text, A, B)
    want = einsum_oracle([("i", "j"), ("j", "k")], tuple(text.partition("->")[2]), [A, B])
    room = np.full([2 * n for n in want.shape], np.nan, order="F" if layout == "F" else "C")
    step = -2 if layout == "reversed" else 2
    out = room[(*(slice(None, None, step) for _ in want.shape), ...)]
    if layout in "CF":
        out = np.full(want.shape, np.nan, order=layout)  # type: ignore[call-overload]
    assert expression(A, B, out=out) is out
    np.testing.assert_allclose(out, want)
    out[...] = 1
    expression(A, B, out=out, alpha=-0.5, beta=3)
    np.testing.assert_allclose(out, 3 - 0.5 * want)


ZEROS = [
    0,
    0.0,
    -0.0,
    0j,
    False,
    np.float64(0),
    np.float32(0),
    np.int8(0),
    np.array(0.0),
    np.bool_(False),
]
ONES = [1, 1.0, 1 + 0j, True, np.float64(1), np.int8(1), np.array(1), Fraction(1)]


@pytest.mark.parametrize("beta", ZEROS, ids=repr)
@pytest.mark.parametrize("alpha", [1, 2, np.float64(0.5)])
def test_out_is_not_read_when_beta_is_zero(beta: Any, alpha: Any) -> None:
    for text, arrays in (("ij,jk->ik", (A, B)), ("ij->ji", (A,)), ("ij->i", (A,))):
        want = einloom.einsum(text, *arrays)
        out = np.full(want.shape, np.nan)
        einloom.compile(text, *arrays)(*arrays, out=out, alpha=alpha, beta=beta)
        np.testing.assert_allclose(out, alpha * want)
        assert matmul()(A, B, beta=beta).shape == (3, 5)  # and needs none


@pytest.mark.parametrize("alpha", ONES, ids=repr)
def test_an_alpha_of_one_changes_nothing(alpha: Any) -> None:
    np.testing.assert_array_equal(matmul()(A, B, alpha=alpha), matmul()(A, B))
    bools = np.array([True, False])
    assert einloom.compile("i->", bools)(bools, alpha=alpha) is np.True_


def test_beta_keeps_nan() -> None:
    out = np.full((3, 5), np.nan)
    assert np.isnan(matmul()(A, B, out=out, beta=1)).all()


def test_bools_accumulate_by_or() -> None:
    a, out = np.array([True, False, False]), np.array([False, True, False])
    np.testing.assert_array_equal(
        einloom.compile("i->i", a)(a, out=out, beta=True), [True, True, False]
    )


def test_integers_wrap_under_alpha_and_beta() -> None:
    a = np.array([100, -100, 1], "i1")
    out = np.array([100, -100, 1], "i1")
    einloom.compile("i->i", a)(a, out=out, alpha=3, beta=-2)
    np.testing.assert_array_equal(out, np.array([100, -100, 1], "i1"))
    twice = einloom.compile("i->i", a)(a, alpha=2)
    assert twice.dtype == np.int8
    np.testing.assert_array_equal(twice, np.array([-56, 56, 2], "i1"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "g", "F", "D", "G", "O"])
def test_alpha_and_beta_in_every_dtype(dtype: str) -> None:
    a = np.array([1, 2, 3]).astype(dtype)
    out = np.array([10, 20, 30]).astype(dtype)
    got = einloom.compile("i->i", a)(a, out=out, alpha=0.5, beta=2)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, np.array([20.5, 41, 61.5]).astype(dtype))


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f8", 1j), ("f8", "2"), ("f8", None), ("f8", [2.0]), ("f8", np.ones(2)), ("f8", A),
        ("i8", 0.5), ("i8", 2j), ("i8", 10**40), ("u1", -1), ("u1", 256), ("?", 2), ("?", 0.5),
        ("f8", 10**400), ("f8", Fraction(1, 2)), ("f8", object()), ("f8", np.datetime64("now")),
    ],
)  # fmt: skip
def test_factors_that_the_result_cannot_hold(dtype: str, value: Any, name: str) -> None:
    a = np.ones(3, dtype)
    out = np.ones(3, dtype)
    with pytest.raises(DTypeError, match=name):
        einloom.compile("i->i", a)(a, out=out, **{name: value})
    np.testing.assert_array_equal(out, a)


def test_beta_needs_out() -> None:
    with pytest.raises(OptionError, match=r"beta.*out"):
        matmul()(A, B, beta=1)


@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.zeros((5, 3)), ShapeError, "out has shape (5, 3), the result has shape (3, 5)"),
        (np.zeros((3, 5), "f4"), DTypeError, "float32"),
        (np.zeros((3, 5), "i8"), DTypeError, "int64"),
        (np.zeros((3, 5), "?"), DTypeError, "bool"),
        ([[0.0] * 5] * 3, DTypeError, "list"),
        ("out", DTypeError, "str"),
        (np.broadcast_to(0.0, (3, 5)), ShapeError, "read-only"),
    ],
)
def test_out_that_cannot_take_the_result(out: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match="out") as caught:
        matmul()(A, B, out=out)
    assert says in str(caught.value)


def test_out_of_a_wider_dtype() -> None:
    for dtype in ("g", "D", "G", ">f8"):
        out = np.ones((3, 5), dtype)
        np.testing.assert_allclose(matmul()(A, B, out=out).astype("D"), A @ B)
        assert out.dtype == np.dtype(dtype)


def test_out_that_overlaps() -> None:
    square = R.standard_normal((4, 4))
    want = square @ square
    einloom.compile("ij,jk->ik", square, square)(square, square, out=square)
    np.testing.assert_allclose(square, want)


# Constants --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "free"),
    [
        ({1: B}, (A, C)), ({-2: B}, (A, C)), ([1], (A, C)), ((-2,), (A, C)), ({0: A, 2: C}, (B,)),
        ([0, -1], (B,)), ({0: A, 1: B, 2: C}, ()), (range(3), ()), ((), (A, B, C)),
        (None, (A, B, C)), ({}, (A, B, C)), ({np.int64(1): B.tolist()}, (A, C)), (iter([2]), (A, B)),
    ],
    ids=said,
)  # fmt: skip
def test_constants(constants: Any, free: Any) -> None:
    expression = einloom.compile("ij,jk,kl->il", A, B, C, constants=constants)
    np.testing.assert_allclose(expression(*free), A @ B @ C)
    assert len(expression.constants) == 3 - len(free)
    assert expression.plan.constants == frozenset(expression.constants)
    assert repr(expression).startswith(f"<Expression of {len(free)} arrays")


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    """A call has one product, and the plan counts one; the path is chosen for that."""
    n = 40
    a, b, c, d = np.random.default_rng(0).random((4, n, n))
    v = np.random.default_rng(1).random((n, 2))
    expression = einloom.compile("ij,jk,kl,lm,mx->ix", a, b, c, d, v, constants=[0, 1, 2, 3])
    assert [ins.op for ins in expression.program.instructions] == ["dot_general"]
    assert expression.plan.cost == n * n * 2
    assert expression.peak_bytes == expression.plan.peak_bytes
    np.testing.assert_allclose(expression(v), a @ b @ c @ d @ v)
    assert "dot_general" in expression.explain(v)
    # one product of constants is dearer than two with a vector, but is not paid at a call
    plain = einloom.plan("ij,jk,kl,lm,mx->ix", a, b, c, d, v)
    assert plain.cost == 4 * n * n * 2


def test_constants_given_with_a_plan_are_those_of_the_expression() -> None:
    """Whatever the plan was made for: what it shows is what runs."""
    n = 40
    shapes = ((n, n), (n, n), (n, n))
    arrays = np.random.default_rng(0).random((3, n, n))
    for planned in ((), (1, 2)):
        plan = einloom.plan("ij,jk,kl->il", *shapes, constants=planned, planner=[(1, 2), (0, 1)])
        for given in ((), (1, 2), (0,)):
            expression = einloom.compile(plan, constants={k: arrays[k] for k in given})
            assert expression.plan.constants == set(given)
            assert expression.peak_bytes == expression.plan.peak_bytes
            free = [x for k, x in enumerate(arrays) if k not in given]
            np.testing.assert_allclose(expression(*free), arrays[0] @ arrays[1] @ arrays[2])


def test_the_peak_counts_what_is_computed_of_constants() -> None:
    """Before any call; a limit holds for that too."""
    tall, wide = np.ones((2000, 2)), np.ones((2, 2000))
    path = [(0, 1), (0, 2), (0, 1)]
    plan = einloom.plan(
        "ij,jk,kl,lm->im", tall, wide, tall, (2, 4), constants=[0, 1, 2], planner=path
    )
    assert plan.peak_bytes >= 2000 * 2000 * 8


def test_no_size_and_constants() -> None:
    expression = einloom.compile("ij,jk->ik", (3, 0), (0, 2), constants={0: np.zeros((3, 0))})
    first, second = expression(np.zeros((0, 2))), expression(np.zeros((0, 2)))
    assert first.flags.writeable
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, np.zeros((3, 2)))


def test_every_call_makes_a_result_of_its_own() -> None:
    for constants in ({0: A, 1: B}, {0: A}):
        free = [x for k, x in enumerate((A, B)) if k not in constants]
        for equation in ("ij,jk->ik", "ij,jk->kji"):
            expression = einloom.compile(equation, A, B, constants=constants)
            first = expression(*free)
            first[...] = np.nan
            np.testing.assert_allclose(expression(*free), np.einsum(equation, A, B))


def test_random_constants() -> None:
    """Any operands may be constants, with out, alpha, beta, any order and slices."""
    draw, rng = random.Random(0), np.random.default_rng(0)
    for _ in range(200):
        n = draw.randint(1, 5)
        labels = "abcdef"
        sizes = {x: draw.choice((1, 2, 3)) for x in labels}
        terms = ["".join(draw.sample(labels, draw.randint(0, 3))) for _ in range(n)]
        used = sorted(set("".join(terms)))
        output = "".join(draw.sample(used, draw.randint(0, min(3, len(used)))))
        arrays = [rng.integers(-3, 4, [sizes[x] for x in term]).astype("f8") for term in terms]
        equation = f"{','.join(terms)}->{output}"
        want = np.einsum(equation, *arrays)
        constants = draw.sample(range(n), draw.randint(0, n))
        plan = einloom.plan(equation, *arrays, constants=constants, order=draw.choice("KCFA"))
        long = [x for x, size in enumerate(plan.network.extents) if size > 1]
        if draw.random() < 0.5:
            plan = replace(plan, sliced=tuple(sorted(draw.sample(long, min(2, len(long))))))
        expression = einloom.compile(plan, constants={k: arrays[k] for k in constants})
        free = [x for k, x in enumerate(arrays) if k not in constants]
        for _ in range(2):
            np.testing.assert_array_equal(expression(*free), want)
        if want.ndim:
            out = np.ones(want.shape)
            expression(*free, out=out, alpha=2, beta=-1)
            np.testing.assert_array_equal(out, 2 * want - 1)
        again = pickle.loads(pickle.dumps(expression))
        np.testing.assert_array_equal(again(*free), want)


def test_constants_are_copied() -> None:
    b = B.copy()
    expression = einloom.compile("ij,jk->ik", A, b, constants=[1])
    b[...] = np.nan
    np.testing.assert_allclose(expression(A), A @ B)
    with pytest.raises(ValueError, match="read-only"):
        expression.constants[1][...] = 0


def test_constants_with_shapes_and_interleaved() -> None:
    by_shape = einloom.compile("ij,jk->ik", A.shape, B.shape, constants={1: B})
    np.testing.assert_allclose(by_shape(A), A @ B)
    interleaved = einloom.compile(A, [0, 1], B, [1, 2], constants=[0])
    np.testing.assert_allclose(interleaved(B), A @ B)
    network = Network(["ij", "jk"], "ik", {"i": 3, "j": 4, "k": 5})
    np.testing.assert_allclose(einloom.compile(network, constants={0: A})(B), A @ B)
    planned = einloom.compile(einloom.plan("ij,jk->ik", A, B), constants={1: B})
    np.testing.assert_allclose(planned(A), A @ B)
    safe = einloom.compile("ij,jk->ik", A, B, constants={1: np.ones((4, 5), "i2")})
    np.testing.assert_allclose(safe(A), A @ np.ones((4, 5)))


def test_out_beside_constants() -> None:
    expression = einloom.compile("ij,jk->ik", A, B, constants=[0])
    out = np.ones((3, 5))
    expression(B, out=out, alpha=2, beta=1)
    np.testing.assert_allclose(out, 2 * A @ B + 1)
    with pytest.raises(ShapeError, match="takes 1 arrays, got 2"):
        expression(A, B)
    with pytest.raises(ShapeError, match="operand 1 has shape"):
        expression(A)


@pytest.mark.parametrize(
    ("constants", "error", "says"),
    [
        ({2: C}, OptionError, "no operand 2"),
        ([-3], OptionError, "no operand -3"),
        (1, CallError, "positions"),
        (["x"], CallError, "positions"),
        ({1: A}, ShapeError, "constant 1 has shape (3, 4), the equation says (4, 5)"),
        ({1: B * 1j}, DTypeError, "constant 1 has dtype complex128"),
        ({1: B.astype(str)}, DTypeError, "constant 1"),
        ({1: B, -1: B}, CallError, "twice"),
        ({1: np.ma.masked_array(B, B > 0)}, ConversionError, "mask"),
        ({1: None}, einloom.EinloomError, "1"),
    ],
)
def test_constants_that_do_not_fit(constants: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match="compile") as caught:
        einloom.compile("ij,jk->ik", A, B, constants=constants)
    assert says in str(caught.value)


def test_a_constant_needs_its_array() -> None:
    with pytest.raises(CallError, match=r"operand 1 is a constant.*pass its array"):
        einloom.compile("ij,jk->ik", A.shape, B.shape, constants=[1])


# Showing ----------------------------------------------------------------------------------------


def test_explain_predicts_and_measures() -> None:
    expression = einloom.compile("ij,jk,kl->il", A, B, C, constants=[1])
    predicted, measured = expression.explain(), expression.explain(A, C)
    time = r"\d+(\.\d+)?(e[+-]\d+)? (s|ms|µs|ns)"
    for text, pattern in ((predicted, rf"\d+ B +{time}$"), (measured, rf"\d+ B +{time} +{time}$")):
        head, *rows, total, bottleneck = text.splitlines()
        assert head.split()[:5] == ["op", "engine", "result", "bytes", "copied"]
        assert bottleneck.startswith("bottleneck: instruction")
        assert len(rows) == len(expression.program.instructions)
        for row, ins in zip(rows, expression.program.instructions, strict=True):
            assert ins.op in row
            assert "float64[" in row
            assert re.search(pattern, row), row
        assert total.startswith(f"peak {expression.peak_bytes} B")
    assert "measured" in measured
    assert "measured" not in predicted


def test_explain_names_the_bottleneck() -> None:
    """Copies, arithmetic, memory, or nothing but the call."""
    n = 300
    square = np.zeros((n, n))
    wide = np.zeros((40, 50, 60, 70))
    for equation, operands, reason in (
        ("ij,jk->ik", (A, B), "the call itself"),
        ("ij,jk->ik", (np.zeros((900, 900)), np.zeros((900, 900))), "arithmetic, 7.29"),
        ("ij,ij->ij", (np.zeros((3000, 300)), np.zeros((3000, 300))), "memory, "),
        ("ijkl,ik->jl", (wide, wide[:, 0, :, 0]), "memory, 64.13 MiB"),
        ("ijkl,ikm->jlm", (wide, wide[:, 0, :, :2]), "copies of 64.14 MiB"),
        ("ii->i", (square,), None),
    ):
        with einloom.options(small=SMALL):  # as shipped: where all is small, more is copied
            text = einloom.compile(equation, *(x.shape for x in operands)).explain()
        if reason is None:
            assert "bottleneck" not in text
        else:
            assert f"time: {reason}" in text.splitlines()[-1], text


def test_explain_names_views_and_engines() -> None:
    lines = einloom.compile("iij,jk->ki", (3, 3, 4), (4, 5)).explain().splitlines()
    assert any("extract_diagonal" in line and "view" in line for line in lines)
    assert any("dot_general" in line and "gemm" in line for line in lines)


@pytest.mark.parametrize("sliced", [(), (0,)])
def test_explain_asks_the_options_it_was_compiled_with(sliced: tuple[int, ...]) -> None:
    """Previously failed: it named the engines of the options in force where it was called."""
    plan = replace(einloom.plan("abk,kcd->acbd", (12, 30, 64), (64, 40, 128)), sliced=sliced)
    with einloom.options(provider="plain"):
        plain = einloom.compile(plan)
        inside = plain.explain()
    with einloom.options(engine="loops"):
        asked = einloom.compile(plan).explain()
        assert plain.explain() == inside != asked
    assert plain.explain() == inside


def test_properties() -> None:
    expression = matmul()
    assert expression.plan == einloom.plan("ij,jk->ik", A, B)
    assert expression.program == expression.plan.program
    assert expression.peak_bytes == expression.plan.peak_bytes
    assert "dot_general" in expression.source
    compile(expression.source, "source", "exec")
    assert str(expression.program).startswith("program(")


# Pickle and threads -----------------------------------------------------------------------------


def test_pickle_compiles_again() -> None:
    expression = einloom.compile("ij,jk,kl->il", A, B, C, constants={1: B}, order="F")
    data = pickle.dumps(expression)
    again = pickle.loads(data)
    np.testing.assert_array_equal(again(A, C), expression(A, C))
    assert again.plan == expression.plan
    assert again.source == expression.source
    assert b"_executable" not in data
    assert pickle.loads(pickle.dumps(again)).plan == again.plan
    assert not again.constants[1].flags.writeable


@pytest.mark.parametrize("constants", [None, [1]])
def test_eight_threads_at_once(constants: Any) -> None:
    """Each thread has operands of its own; none sees another's."""
    n = 60
    expression = einloom.compile(
        "ij,jk,kl->il", *[np.eye(n)] * 3, constants=constants and {1: 2 * np.eye(n)}
    )
    factor = 2 if constants else 1
    barrier = threading.Barrier(8)

    def work(k: int) -> bool:
        r = np.random.default_rng(k)
        a, c = r.standard_normal((n, n)), r.standard_normal((n, n))
        middle = [] if constants else [np.eye(n)]
        out = np.empty((n, n))
        barrier.wait()
        for _ in range(40):
            got = expression(a, *middle, c)
            expression(a, *middle, c, out=out)
            if not np.allclose(got, factor * a @ c) or not np.array_equal(out, got):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_eight_threads_of_einsum_at_once() -> None:
    """Equations nobody has seen, planned by several threads, the caches cleared meanwhile."""
    einloom.clear_caches()
    networks = [
        net for net in random_networks(31, 24, sizes=(2, 3)) if math.prod(net.extents) < 2000
    ]
    barrier = threading.Barrier(8)

    def work(k: int) -> list[bytes]:
        barrier.wait()
        results = []
        for net in networks:
            r = np.random.default_rng(3)
            arrays = [r.integers(-2, 3, shape) for shape in net.shapes]
            pairs = [x for pair in zip(arrays, net.inputs, strict=True) for x in pair]
            results.append(np.asarray(einloom.einsum(*pairs, net.output)).tobytes())
            if k == 0:
                einloom.clear_caches()
        return results

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert all(one == found[0] for one in found)


def test_parallel_kernels_from_several_threads() -> None:
    """Loop kernels share one pool of threads."""
    with einloom.options(small=0, threads=3):
        a = np.arange(40 * 30 * 4, dtype="i8").reshape(40, 30, 4)
        expression = einloom.compile("bij,bij->bi", a, a)
    want = (a * a).sum(axis=2)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: expression(a, a), range(64)))
    assert all(np.array_equal(got, want) for got in results)


# torch, without torch ---------------------------------------------------------------------------


class Tensor:
    """What einloom needs of a torch tensor: its module, its dtype and DLPack."""

    requires_grad = False
    is_sparse = False

    def __init__(self, array: np.ndarray, device: str = "cpu") -> None:
        self.array, self.dtype, self.shape = array, f"torch.{array.dtype}", array.shape
        self.device = type("device", (), {"type": device})()
        self.ndim = array.ndim

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


Tensor.__module__ = "torch"


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module torch whose from_dlpack keeps the array it is given."""
    module = ModuleType("torch")
    module.from_dlpack = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.usefixtures("fake_torch")
def test_torch_tensors_come_back_as_such() -> None:
    a, b = Tensor(A.copy()), Tensor(B.copy())
    expression = einloom.compile("ij,jk->ik", (3, 4), (4, 5))
    for got in (
        expression(a, b),
        expression(A, b),
        einloom.einsum("ij,jk->ik", a, b),
        einloom.tensordot(a, b, 1),
        einloom.ncon([a, b], [[-1, 1], [1, -2]]),
    ):
        assert isinstance(got, Tensor)
        np.testing.assert_allclose(got.array, A @ B)
    view = einloom.transpose(a)
    assert isinstance(view, Tensor)
    assert np.shares_memory(view.array, a.array)


@pytest.mark.usefixtures("fake_torch")
def test_torch_tensors_with_an_array_as_out() -> None:
    out = np.empty((3, 5))
    assert einloom.compile("ij,jk->ik", A, B)(Tensor(A), Tensor(B), out=out) is out
    np.testing.assert_allclose(out, A @ B)


@pytest.mark.usefixtures("fake_torch")
@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"requires_grad": True}, "detach"),
        ({"is_sparse": True}, "to_dense"),
        ({"device": "cuda"}, "cpu"),
    ],
)
def test_torch_tensors_that_cannot_be_read(change: dict[str, Any], remedy: str) -> None:
    tensor = Tensor(A, change.get("device", "cpu"))
    for name, value in change.items():
        if name != "device":
            setattr(tensor, name, value)
    with pytest.raises(ConversionError, match=rf"expression: operand 0 .*{remedy}"):
        matmul()(tensor, B)


# Objects ----------------------------------------------------------------------------------------


def test_object_arrays() -> None:
    """Python's own numbers, added and multiplied by themselves."""
    a = np.array([[10**30, 2], [3, Fraction(1, 3)]], object)
    got = einloom.compile("ij,jk->ik", a, a)(a, a)
    np.testing.assert_array_equal(got, a @ a)
    assert got.dtype == object


def test_a_case_prints_the_lines_that_repeat_it() -> None:
    case = replace(CORPUS["traces"][0], dtypes=("float32",))
    assert isinstance(case, Case)
    assert eval(repr(case)) == case
    assert chain(2).output == (0, 2)


def test_foreign_byte_order_is_converted() -> None:
    swapped = A.astype(A.dtype.newbyteorder())
    np.testing.assert_array_equal(einloom.compile("ij,jk->ik", swapped, B)(swapped, B), A @ B)
