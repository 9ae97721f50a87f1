"""Bad input gets an error that tells the call, what was got and the spot; inputs stay as they are.

A row names our class, where one is promised, and the built-in error that code written for NumPy
catches. Where `numpy` is true, NumPy is asked whether that is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.oracles import einsum_oracle

import einloom

A = np.arange(9.0).reshape(3, 3)  # a square, an oblong, a line, integers and dates
R = np.arange(6.0).reshape(2, 3)
V = np.arange(3.0)
N = np.arange(9).reshape(3, 3)
DATES = N.astype("datetime64[s]")


@dataclass(frozen=True)
class Bad:
    """A call that must fail."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    ours: str = "EinloomError"
    builtin: type[Exception] = ValueError
    caret: tuple[int, ...] = ()  # places in the string where the caret may begin
    says: tuple[str, ...] = ()
    numpy: bool = True  # NumPy raises the same built-in error


def text(name: str, string: str, *caret: int, operands: tuple[Any, ...] = (A,), **more: Any) -> Bad:
    """A string that is no equation of these operands."""
    return Bad(name, (string, *operands), ours="SubscriptError", caret=caret, **more)


def path(name: str, steps: list[Any], **more: Any) -> Bad:
    """A path that is none of a chain of three."""
    arguments = ("ij,jk,kl->il", A, A, A)
    return Bad(name, arguments, {"optimize": steps}, **{"ours": "PathError", "numpy": False} | more)


def product(name: str, **keywords: Any) -> Bad:
    """A good equation with bad keywords, which NumPy does not have."""
    return Bad(name, ("ij,jk->ik", A, A), keywords, builtin=Exception, numpy=False)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


dtype = partial(Bad, ours="DTypeError", builtin=TypeError)
matmul = partial(Bad, arguments=("ij,jk->ik", A, A))

ROWS: dict[str, list[Bad]] = {
    "subscripts": [
        text("two arrows", "ij->ji->ij", 6, 7),
        text("an arrow after an arrow", "ij->->", 4, 5),
        text("a stray symbol", "i%j", 1),
        text("a stray symbol in the output", "ij->i#", 5),
        text("a stray symbol in the second term", "ij, j$ -> i", 5, operands=(A, A)),
        text("half an arrow", "ij-ji", 2),
        text("the other half", "ij>ji", 2),
        text("an arrow to the left", "ij<-ji", 2),
        text("an equals sign", "ij=ji", 2),
        text("a bracket", "[ij]->ji", 0),
        text("a comma in the output", "ij,jk->i,k", 8, operands=(A, A)),
        text("a parenthesis that never closes", "(ij,jk->ik", 0, operands=(A, A)),
        text("a parenthesis that was never opened", "ij),jk->ik", 2, operands=(A, A)),
        text("one of two never closes", "((ij,jk),kl->il", 0, 1, operands=(A, A, A)),
        text("a label after a parenthesis", "(ij,jk)k,kl->il", 6, 7, operands=(A, A, A)),
        text("a parenthesis in the output", "ij->(ij)", 4),
        text("an unknown output label", "ij->ik", 5),
        text("an unknown output label of two operands", "ij,jk->iz", 8, operands=(A, A)),
        text("an unknown output label beyond ASCII", "ij,jk->ié", 8, operands=(A, A)),
        text("one dot", "i.j", 1),
        text("two dots", "i..j", 1, 2),
        text("four dots", "ij....", 2, 3, 4, 5),
        text("two dots in the output", "ij->..i", 4, 5),
        text("two ellipses in a term", "...i...", 4),
        text("two ellipses in the output", "...->......", 8),
        text("a label twice in the output", "ij->iji", 4, 6, says=("embed_diagonal",)),
        text("a diagonal in the output", "ii->ii", 4, 5, says=("embed_diagonal",)),
        text("too few operands", "ij,jk", says=("2", "1")),
        text("too many operands", "ij", operands=(A, A), says=("1", "2")),
        text("no operand", "", operands=()),
        text("a term without an operand", "ij,", says=("2", "1")),
    ],
    "shapes": [
        Bad("too many subscripts", ("ijk,jk", A, A), caret=(0,), says=("3", "2")),
        Bad("too many in the second term", ("jk,ijk", A, A), caret=(3,), says=("3", "2")),
        Bad("too few subscripts", ("i,jk", A, A), caret=(0,), says=("1", "2")),
        Bad("no subscripts", ("->", A)),
        Bad("subscripts for a number", ("i", 3.0)),
        Bad("too many beside an ellipsis", ("ij...", V), caret=(0,)),
        Bad("too many around an ellipsis", ("i...j", V), caret=(0,)),
        Bad("an ellipsis missing in the output", ("i...->i", A)),
        Bad("sizes disagree", ("ij,jk->ik", A, R), says=("'j'", "3", "2")),
        Bad("sizes disagree in the third", ("ij,jk,kl", A, A, R), says=("'k'",)),
        Bad("sizes disagree under an ellipsis", ("...i,...i", R, A), says=("2", "3")),
        Bad("a diagonal of 2 by 3", ("ii->i", R), says=("'i'", "2", "3")),
        Bad("a trace of 2 by 3", ("ii->", R), says=("'i'", "2", "3")),
        Bad("a diagonal of 1 by 3", ("ii->i", R[:1]), says=("'i'", "1", "3")),
        Bad("a trace of 1 by 3", ("ii->", R[:1]), says=("'i'", "1", "3")),
        Bad("1 by 3 beside 3", ("ii,i->i", R[:1], V), says=("'i'",)),
        Bad("a trace of 0 by 1", ("ii->", np.zeros((0, 1))), says=("'i'",)),
    ],
    "interleaved": [
        Bad("nothing at all", ()),
        Bad("an operand without labels", (A,)),
        Bad("a number as subscripts", (0, 0), builtin=TypeError),
        Bad("None everywhere", (None,) * 5, builtin=TypeError),
        Bad("sizes disagree", (A, [0, 1], R, [1, 2]), says=("1", "3", "2")),
        Bad("too many labels", (V, [0, 1])),
        Bad("too few labels", (A, [0])),
        Bad("an unknown output label", (A, [0, 1], [0, 2]), ours="SubscriptError", says=("2",)),
        Bad("an output label twice", (A, [0, 1], [0, 0]), says=("embed_diagonal",)),
        Bad("two ellipses", (A, [..., 0, ...])),
        Bad("an unhashable label", (A, [0, [1]]), builtin=TypeError),
        Bad("labels without an order", (A, [0, "x"]), ours="SubscriptError", numpy=False),
    ],
    "dtypes": [
        dtype("dates with integers", ("ij,jk", N, DATES)),
        dtype("dates with floats", ("ij,jk", A, DATES)),
        dtype("a product of dates", ("ij,jk", DATES, DATES)),
        dtype("strings", ("ij->i", A.astype(str))),
        dtype("strings with floats", ("ij,jk", A, A.astype(str))),
        dtype("records", ("ij->i", np.zeros((2, 2), [("x", float)]))),
        dtype("a dtype that is none", ("ij->i", A), {"dtype": "no such dtype"}),
        dtype("a narrower dtype", ("ij,jk", A, A), {"dtype": "float32"}, says=("float32",)),
        dtype("floats to integers", ("ij->i", A), {"dtype": "int64", "casting": "same_kind"}),
        dtype("no casting", ("ij,jk", A, N), {"casting": "no"}),
    ],
    "paths": [
        path("out of range", ["einsum_path", (0, 5), (0, 1)]),
        path("out of range, plain", [(0, 1), (0, 2)]),
        path("out of range below", [(-5, 0), (0, 1)]),
        path("incomplete", ["einsum_path", (0, 1)], builtin=RuntimeError, numpy=True),
        path("incomplete, plain", [(0, 1)]),
        path("empty", []),
        path("repeated", ["einsum_path", (0, 0), (0, 1)]),
        path("repeated, plain", [(1, 1), (0, 1)]),
        path("too long", [(0, 1), (0, 1), (0, 1)]),
        path("no integers", [(0, "x"), (0, 1)], ours="EinloomError", builtin=Exception),
    ],
    "out": [
        matmul("wrong shape", keywords={"out": np.zeros((2, 3))}, says=("(2, 3)", "(3, 3)")),
        matmul("an axis too many", keywords={"out": np.zeros((1, 3, 3))}, numpy=False),
        matmul("an axis to broadcast along", keywords={"out": np.zeros((3, 1))}),
        Bad("no scalar", ("ij->", A), {"out": np.zeros(1)}),
        matmul("narrower", keywords={"out": np.zeros((3, 3), "f4")}, builtin=TypeError),
        matmul("integers", keywords={"out": np.zeros((3, 3), int)}, builtin=TypeError),
        Bad("real", ("ij->ij", A * 1j), {"out": np.zeros((3, 3))}, builtin=TypeError),
        matmul("a list", keywords={"out": [[0.0] * 3] * 3}, builtin=TypeError),
        Bad("a string", ("", 0), {"out": "test"}, builtin=TypeError),
        matmul("read-only", keywords={"out": read_only(np.zeros((3, 3)))}),
    ],
    "options": [
        matmul("order", keywords={"order": "W"}, ours="OptionError", says=("'W'",)),
        matmul("casting", keywords={"casting": "blah"}, ours="OptionError", says=("'blah'",)),
        Bad("planner", ("i->", V), {"optimize": "blah"}, "OptionError", numpy=False),
        product("optimize a number", optimize=1.5),
        product("optimize an object", optimize=object()),
        product("optimize a limit that is none", optimize=("greedy", "x")),
        product("conj out of range", conj=(2,)),
    ],
    "memory limits": [
        product(f"{limit!r}", memory_limit=limit)
        for limit in (-1, 0, -0.5, 1.5, float("nan"), True, "12 parsecs", "", "-1GiB", "nan", (1,))
    ],
}

every_row = pytest.mark.parametrize(
    "row",
    [pytest.param(row, id=f"{head}: {row.name}") for head, rows in ROWS.items() for row in rows],
)


@contextmanager
def unchanged(*values: Any) -> Iterator[None]:
    """Every array among the values, and its writeable flag, is afterwards as it was."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    before = [(array.tobytes(), array.flags.writeable) for array in arrays]
    yield
    assert [(array.tobytes(), array.flags.writeable) for array in arrays] == before


@every_row
def test_error(row: Bad) -> None:
    arrays = (*row.arguments, *row.keywords.values())
    with unchanged(*arrays), pytest.raises(getattr(einloom, row.ours)) as caught:
        einloom.einsum(*row.arguments, **row.keywords)
    error, message = caught.value, str(caught.value)
    assert isinstance(error, einloom.EinloomError)
    assert isinstance(error, row.builtin)
    assert "einsum" in message, "the call is not named"
    for part in row.says:
        assert part in message
    if isinstance(error, einloom.SubscriptError):
        assert all(x in message for x in row.arguments[:1] if isinstance(x, str)), "no string"
    if row.caret:
        assert caret_column(message, row.arguments[0]) in row.caret, message


def caret_column(message: str, string: str) -> int:
    """Where in the string the caret on the line below it begins."""
    lines = message.splitlines()
    (below,) = [k for k, line in enumerate(lines) if line.strip() and not line.strip(" ^")]
    return lines[below].index("^") - lines[below - 1].index(string)


@pytest.mark.parametrize(
    "row",
    [pytest.param(r, id=f"{h}: {r.name}") for h, rows in ROWS.items() for r in rows if r.numpy],
)
def test_numpy_raises_the_same(row: Bad) -> None:
    with pytest.raises(row.builtin):
        np.einsum(*row.arguments, **row.keywords)


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match=r"einsum.*no_such_keyword"):
        einloom.einsum("i->", V, no_such_keyword=1)


def test_long_string_shows_the_spot() -> None:
    """However the string is cut, the caret stands below the stray symbol."""
    string = ",".join(["ab"] * 100) + ",a!," + ",".join(["ab"] * 100)
    with pytest.raises(einloom.SubscriptError) as caught:
        einloom.einsum(string, *[A] * 201)
    lines = str(caught.value).splitlines()
    (below,) = [k for k, line in enumerate(lines) if line.strip() == "^"]
    assert lines[below - 1][lines[below].index("^")] == "!"


# Arrays of others -------------------------------------------------------------------------------


def foreign(module: str, name: str, **attributes: Any) -> Any:
    """An object that looks like a 3 by 3 array of another library."""
    attributes |= {"__module__": module, "shape": (3, 3), "ndim": 2, "dtype": A.dtype}
    attributes["__array__"] = lambda self, dtype=None, copy=None: A
    return type(name, (), attributes)()


FOREIGN = [
    (foreign("dask.array.core", "Array"), "compute"),
    (foreign("sparse.numba_backend._coo.core", "COO"), "todense"),
    (foreign("jax._src.interpreters.partial_eval", "DynamicJaxprTracer"), "jit"),
    (foreign("torch", "Tensor", requires_grad=True), "detach"),
    (np.ma.masked_array(A, A > 4), "filled"),
    (scipy.sparse.csr_array(A), "toarray"),
    (scipy.sparse.coo_matrix(A), "toarray"),
]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("array", "remedy"), [pytest.param(*row, id=type(row[0]).__module__) for row in FOREIGN]
)
def test_foreign_array(array: Any, remedy: str, first: bool) -> None:
    operands = (array, A) if first else (A, array)
    with unchanged(A), pytest.raises(einloom.ConversionError, match=remedy) as caught:
        einloom.einsum("ij,jk->ik", *operands)
    assert isinstance(caught.value, TypeError)
    assert "einsum" in str(caught.value)
    assert type(array).__name__ in str(caught.value)


# Limits and overlaps ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100, "1 kB", "2KiB"])
def test_limit_that_no_plan_meets(limit: Any) -> None:
    wide = np.ones((40, 40))
    with unchanged(wide), pytest.raises(einloom.MemoryLimitError, match=r"einsum.*\d") as caught:
        einloom.einsum("ij,jk,kl->il", wide, wide, wide, memory_limit=limit)
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("limit", [None, 10**9, "1GiB", "900 MB", 0.5])
def test_limit_that_is_met(limit: Any) -> None:
    with unchanged(A):
        got = einloom.einsum("ij,jk,kl->il", A, A, A, memory_limit=limit)
    np.testing.assert_array_equal(got, A @ A @ A)


BUFFER = np.arange(40.0)
PLACES = {
    "the input itself": lambda b: b[:9].reshape(3, 3),
    "its transpose": lambda b: b[:9].reshape(3, 3).T,
    "one element on": lambda b: b[1:10].reshape(3, 3),
    "backwards": lambda b: b[8::-1].reshape(3, 3),
    "with holes": lambda b: b[:18:2].reshape(3, 3),
}


@pytest.mark.parametrize("optimize", ["auto", False, "greedy"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "equation", ["ij->ij", "ij->ji", "ij,jk->ik", "ij,ij->ij", "ij,jk->ki", "ij,jk,kl->il"]
)
def test_out_overlaps_an_input(equation: str, place: str, optimize: Any) -> None:
    buffer = BUFFER.copy()
    first, out = buffer[:9].reshape(3, 3), PLACES[place](buffer)
    inputs = [tuple(term) for term in equation.partition("->")[0].split(",")]
    operands = [first, *[A] * (len(inputs) - 1)]
    want = einsum_oracle(inputs, tuple(equation.partition("->")[2]), operands)
    untouched = np.ones(buffer.size, bool)
    PLACES[place](untouched)[...] = False
    with unchanged(A):
        assert einloom.einsum(equation, *operands, out=out, optimize=optimize) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(buffer[untouched], BUFFER[untouched])


# Classes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("SubscriptError", ValueError),
        ("ShapeError", ValueError),
        ("DTypeError", TypeError),
        ("PathError", ValueError),
        ("OptionError", ValueError),
        ("ConversionError", TypeError),
        ("MemoryLimitError", MemoryError),
    ],
)
def test_classes(name: str, builtin: type[Exception]) -> None:
    error = getattr(einloom, name)
    assert issubclass(error, einloom.EinloomError)
    assert issubclass(error, builtin)
