"""Sizes that are known later: their arithmetic is that of Python's integers, in a normal form."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backend.calls import CALLS, some_dtype
from tests.backend.inferences import INFERENCES
from tests.each import each

from einloom._base.errors import EinloomError, ProgramError
from einloom.backend.catalogue import infer
from einloom.backend.dims import (
    LONGEST,
    DimExpr,
    Extent,
    as_size,
    differ,
    dim,
    evaluated,
    exceeds,
    extent_of,
    from_code,
    input_dim,
    interval,
    maximum,
    minimum,
    shapes_differ,
)
from einloom.backend.spec import ArraySpec

N, M = dim("n"), dim("m")
BOUND, EXACT, UNKNOWN = Extent.BOUND, Extent.EXACT, Extent.UNKNOWN

TEXTS: list[tuple[Any, str]] = [
    (N, "n"),
    (2 * N + 1, "2*n+1"),
    (N - M, "-m+n"),
    (-N, "-n"),
    (N * N * M, "m*n*n"),
    ((N + 1) * (M - 1), "m*n+m-n-1"),
    ((N + 1) // M, "(n+1)//m"),
    (-(N // M), "-(n//m)"),
    (N // 2 // 3, "n//2//3"),
    (M * (N // (2 * M)), "m*(n//(2*m))"),
    (minimum(N, M) + 1, "min(m,n)+1"),
    (3 * maximum(0, N - 1), "3*max(0,n-1)"),
    (input_dim(0, 1) + N, "x0.1+n"),
    (5 // N, "5//n"),
    (M * ((-N) // -2) - 1, "(-n)//-2*m-1"),
    (M + (-N) // -2, "(-n)//-2+m"),
    (M + (-3) // N, "(-3)//n+m"),
]


@pytest.mark.parametrize(("expr", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_printed_as_python_would_read_it(expr: Any, text: str) -> None:
    assert str(expr) == repr(expr) == text
    sizes = {"n": 7, "m": 3}
    python = text.replace("x0.1", "4")
    assert expr.evaluate(sizes, [(5, 4)], negative=True) == eval(python, dict(sizes))
    assert from_code(expr.code) == expr
    assert pickle.loads(pickle.dumps(expr)) == expr


EQUAL: list[tuple[Any, Any]] = [
    (N + M, M + N),
    (N + N, 2 * N),
    (N - N, 0),
    (0 * N, 0),
    ((N + 1) * (N + 1), N * N + 2 * N + 1),
    ((4 * N + 5) // 2, 2 * N + 2),
    (6 * N // -3, -2 * N),
    (N // 1, N),
    (minimum(N, N + 1), N),
    (maximum(N, N + 1), N + 1),
    (maximum(N, 0), N),
    (minimum(N, M), minimum(M, N)),
    (maximum(minimum(N, 4), 9), 9),
    (minimum(N, M * N + 2 * N), N),
    (minimum(2, 3), 2),
    (math.prod((N, 2, M)), 2 * M * N),
    (sum((N, 1, N)), 2 * N + 1),
    (np.int64(2) + N, N + 2),
]


@pytest.mark.parametrize(("a", "b"), EQUAL, ids=[str(b) for _, b in EQUAL])
def test_normal_form(a: Any, b: Any) -> None:
    assert a == b
    assert hash(a) == hash(b)
    assert type(a) is type(b)
    assert not differ(a, b)
    assert not exceeds(a, b)


def test_what_is_proven() -> None:
    assert differ(N, N + 1)
    assert differ(N + 1, 0)
    assert differ(-1, N)
    assert not differ(N, M)
    assert not differ(N, 0)
    assert exceeds(N + 1, N)
    assert not exceeds(N, M)
    assert shapes_differ((N,), (N, 1))
    assert shapes_differ((N, 2), (N, 3))
    assert not shapes_differ((N, 2), (M, 2))
    assert (N + 1 > N, N < N + 1, N >= N, N + 1 <= N) == (True, True, True, False)
    assert interval(minimum(N, 5) * 2 - 1) == (-1, 9)


@pytest.mark.parametrize("what", [lambda: N < M, lambda: min(N, M), lambda: not N, lambda: N <= 3])
def test_undecided_is_refused(what: Any) -> None:
    with pytest.raises(ProgramError, match="known only when"):
        what()


@pytest.mark.parametrize("name", ["", "2n", "n m", "min", "+", None, 3, "n\n"])
def test_bad_names(name: Any) -> None:
    with pytest.raises(ProgramError, match="no name of a size"):
        dim(name)


@pytest.mark.parametrize("value", [None, 2.0, True, [1], "1"])
def test_no_size(value: Any) -> None:
    with pytest.raises(ProgramError, match=r"no size|no name of a size"):
        as_size(value)
    if not isinstance(value, str):
        with pytest.raises(TypeError):
            N + value


def test_evaluation_refuses() -> None:
    with pytest.raises(ProgramError, match="m is not given"):
        (N + M).evaluate({"n": 1})
    with pytest.raises(ProgramError, match=r"the size n-5 is -2, with n = 3"):
        (N - 5).evaluate({"n": 3})
    assert (N - 5).evaluate({"n": 3}, negative=True) == -2
    with pytest.raises(ProgramError, match="divides 4 by zero"):
        (4 // N).evaluate({"n": 0})
    with pytest.raises(ProgramError, match="divides by zero"):
        N // 0
    with pytest.raises(ProgramError, match=r"names input 1, there are 1"):
        input_dim(1, 0).evaluate({}, [(2,)])
    with pytest.raises(ProgramError, match=r"names axis 2 of input 0, which has 1"):
        input_dim(0, 2).evaluate({}, [(2,)])
    with pytest.raises(ProgramError, match="two integers >= 0"):
        input_dim(-1, 0)


def test_sizes_defined_by_others() -> None:
    assert (N + 1).evaluate({"n": 2 * M, "m": dim("k"), "k": 5}) == 11
    for circle in ({"n": N + 1}, {"n": M, "m": N}, {"n": M + 1, "m": dim("k"), "k": N // 2}):
        with pytest.raises(ProgramError, match="in a circle"):
            N.evaluate(circle)


def test_substituted() -> None:
    assert (2 * N + M).substitute({"n": M + 1}) == 3 * M + 2
    assert minimum(N, M).substitute({"n": 3, "m": 4}) == 3
    assert evaluated(((N, 1), "a", N - 3), {"n": 2}) == ((2, 1), "a", -1)


def test_no_depth_is_too_deep() -> None:
    deep = N
    for _ in range(1000):
        deep = (deep + 1) // (M + 1)
    assert deep.evaluate({"n": 10, "m": 0}) == 1010
    assert hash(deep) == hash(from_code(deep.code))
    assert len(str(deep)) > 1000


def test_too_large() -> None:
    def grown() -> None:
        x = N
        while True:
            x = x // 2 + minimum(x, 5 * M)

    with pytest.raises(ProgramError, match=f"more than {LONGEST} parts"):
        grown()


def test_large_products_are_not_multiplied_out() -> None:
    product = math.prod(dim(f"n{k}") + 1 for k in range(40))
    assert product.evaluate({f"n{k}": 1 for k in range(40)}) == 2**40
    assert product == math.prod(dim(f"n{k}") + 1 for k in range(40))


@pytest.mark.parametrize("code", [(), ("+",), ("n", "n"), ("n", 2, "*", "*"), (1.5,), ([1, 2, 3],)])
def test_no_code(code: Any) -> None:
    with pytest.raises(ProgramError):
        from_code(code)


# ---- extents -----------------------------------------------------------------------------------


def test_extents() -> None:
    """Sums, products and extremes of bounds are bounds; differences and quotients need exact ones."""
    for one in Extent:
        for other in Extent:
            worst = max(one, other, key=lambda extent: extent.value)
            assert one + other == one * other == worst
            assert one - other == (EXACT if worst is EXACT else UNKNOWN)
            assert one // other == (one if other is EXACT else UNKNOWN)


@pytest.mark.parametrize(
    ("expr", "extent"),
    [
        (7, EXACT),
        (M + 1, EXACT),
        (N, BOUND),
        (2 * N + M, BOUND),
        (N * M - 3, BOUND),
        (minimum(N, M), BOUND),
        (N // 2, BOUND),
        (N // M, BOUND),
        (M - N, UNKNOWN),
        (M - 2 * M * N, UNKNOWN),
        (M // N, UNKNOWN),
        (N // -2, UNKNOWN),
        (maximum(M - N, 1), UNKNOWN),
    ],
    ids=str,
)
def test_extents_of_expressions(expr: Any, extent: Extent) -> None:
    assert extent_of(expr, {"n"}) is extent


# ---- laws --------------------------------------------------------------------------------------

LEAVES = st.one_of(st.integers(-4, 9), st.sampled_from(("n", "m", "k")))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(("+", "-", "*", "//", "min", "max")), inner, inner),
    max_leaves=12,
)
VALUES = st.fixed_dictionaries({name: st.integers(0, 12) for name in ("n", "m", "k")})


def computed(tree: Any, leaf: Any, least: Any, largest: Any) -> Any:
    if not isinstance(tree, tuple):
        return leaf(tree)
    op, a, b = tree[0], *(computed(x, leaf, least, largest) for x in tree[1:])
    operations = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // b,
        "min": lambda: least(a, b),
        "max": lambda: largest(a, b),
    }
    return operations[op]()


def symbolic(tree: Any) -> Any:
    return computed(tree, lambda x: dim(x) if isinstance(x, str) else x, minimum, maximum)


@given(TREES, VALUES)
def test_evaluation_is_python(tree: Any, sizes: dict[str, int]) -> None:
    """Where Python divides by zero we refuse, now, later, or never if nothing depends on it."""
    try:
        want = computed(tree, lambda x: sizes.get(x, x), min, max)
    except ZeroDivisionError:
        return
    expr = symbolic(tree)
    assert evaluated(expr, sizes) == want
    low, high = interval(expr)
    assert low is None or low <= want
    assert high is None or want <= high
    if isinstance(expr, DimExpr):
        assert from_code(expr.code) == expr
        assert expr.substitute(sizes) == want
        assert eval(str(expr), {"min": min, "max": max} | sizes) == want


@given(TREES, TREES, VALUES)
def test_what_is_proven_holds(one: Any, other: Any, sizes: dict[str, int]) -> None:
    try:
        a, b = symbolic(one), symbolic(other)
        x, y = evaluated(a, sizes), evaluated(b, sizes)
    except (ProgramError, ZeroDivisionError):
        return
    assert not (a == b and x != y)
    assert not (differ(a, b) and x == y)
    assert not (exceeds(a, b) and x <= y)


@given(TREES, VALUES, st.integers(0, 12))
def test_extents_hold(tree: Any, sizes: dict[str, int], less: int) -> None:
    """Exact sizes do not change with a bounded name, and bounds are not exceeded."""
    try:
        expr = symbolic(tree)
        most = evaluated(expr, sizes)
        fewer = evaluated(expr, sizes | {"n": max(0, sizes["n"] - less)})
    except (ProgramError, ZeroDivisionError):
        return
    extent = extent_of(expr, {"n"})
    assert extent is not EXACT or fewer == most
    if min(interval_of_parts(expr), default=0) >= 0:
        assert extent is not BOUND or fewer <= most


def interval_of_parts(expr: Any) -> list[int]:
    """The integers in an expression; where none is negative, nothing falls as a name grows."""
    return [x for x in expr.code if type(x) is int] if isinstance(expr, DimExpr) else []


# ---- shape rules -------------------------------------------------------------------------------

RULES = [(call.op, call.attrs, call.specs(some_dtype(call.op))) for call in CALLS] + [
    row[:3] for row in INFERENCES
]


def named(inputs: tuple[ArraySpec, ...], one: bool) -> tuple[list[ArraySpec], dict[str, int]]:
    """The operands with a name for each size, one for all of equal size or one for each axis."""
    sizes: dict[str, int] = {}

    def name(k: int, axis: int, n: int) -> DimExpr:
        text = f"s{n}" if one else f"a{k}_{axis}"
        sizes[text] = n
        return dim(text)

    specs = [
        ArraySpec(x.dtype, tuple(name(k, axis, n) for axis, n in enumerate(x.shape)))  # type: ignore[misc]
        for k, x in enumerate(inputs)
    ]
    return specs, sizes


@pytest.mark.parametrize("one", [True, False], ids=["names by size", "names by axis"])
@each(("op", "attrs", "inputs"), RULES)
def test_rules_work_on_names(op: str, attrs: Any, inputs: Any, one: bool) -> None:
    """Named sizes through the rule, then evaluated, are the rule on integers."""
    specs, sizes = named(inputs, one)
    want = infer(op, attrs, inputs)
    got = infer(op, attrs, tuple(specs))
    assert [evaluated(x.shape, sizes) for x in got] == [x.shape for x in want]
    assert [x.dtype for x in got] == [x.dtype for x in want]


@given(st.sampled_from(RULES), st.lists(st.integers(0, 4), min_size=20, max_size=20))
def test_rules_refuse_late_what_integers_refuse(row: Any, drawn: list[int]) -> None:
    """For any sizes: what a rule yields for names is what it yields for integers, if it takes them."""
    op, attrs, inputs = row
    specs, sizes = named(inputs, False)
    sizes = dict(zip(sizes, drawn, strict=False))
    exact = tuple(ArraySpec(x.dtype, evaluated(x.shape, sizes)) for x in specs)
    try:
        want = infer(op, attrs, exact)
    except EinloomError:
        return
    got = infer(op, attrs, tuple(specs))
    assert [evaluated(x.shape, sizes) for x in got] == [x.shape for x in want]


def test_rules_refuse_at_once_what_is_wrong_for_any_sizes() -> None:
    def spec(*shape: Any) -> ArraySpec:
        return ArraySpec(np.dtype("float64"), shape)

    dot = {"contracting": ((1,), (0,)), "batch": ((), ())}
    for op, attrs, inputs in (
        ("add", {}, (spec(N), spec(N + 1))),
        ("dot_general", dot, (spec(2, N), spec(N + 1, 2))),
        ("reshape", {"shape": (N, 2)}, (spec(2 * N + 1),)),
        ("slice", {"starts": (0,), "stops": (N + 1,), "steps": (1,)}, (spec(N),)),
        ("squeeze", {"axes": (0,)}, (spec(N + 2),)),
        ("cholesky", {}, (spec(N, N + 1),)),
        ("pad", {"low": (-1,), "high": (-N,), "interior": (0,), "value": 0}, (spec(N),)),
        ("argmax", {"axis": 0}, (spec(N - N),)),
    ):
        with pytest.raises(ProgramError, match=op):
            infer(op, attrs, inputs)
