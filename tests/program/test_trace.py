"""Tracing: what a function does with arrays, recorded as a template that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    EinloomError,
    OptionError,
    ShapeError,
)
from einloom.backend.cpu import cpu
from einloom.backend.dims import dim
from einloom.backend.spec import ArraySpec
from einloom.program.executable import Executable
from einloom.program.passes import optimise
from einloom.program.serial import template_from_json, template_to_json
from einloom.program.template import ProgramTemplate
from einloom.program.trace import Traced, trace

SIZES = {"n": 20, "m": 30, "k": 10}


def run(template: ProgramTemplate, *arrays: Any) -> Any:
    """The bound program on arrays, as it is and after every pass."""
    again = template_from_json(template_to_json(template))
    program = again.bind([x.shape for x in arrays], [x.dtype for x in arrays])
    result = Executable(program, cpu())(*arrays)
    np.testing.assert_equal(Executable(optimise(program), cpu())(*arrays), result)
    return result


def network(x: Any, w: Any, v: Any) -> Any:
    """einsum -> elementwise -> einsum."""
    hidden = einloom.einsum("bi,ij->bj", x, w)
    hidden = hidden / (1 + abs(hidden)) - 0.5 * hidden**2
    return einloom.einsum("bj,jk,bi->ki", hidden, v, x)


FUNCTIONS: list[tuple[str, Callable[..., Any], tuple[str, ...], tuple[tuple[int, ...], ...]]] = [
    ("network", network, ("[n,3]", "[3,m]", "[m,k]"), ((5, 3), (3, 4), (4, 2))),
    ("numbers", lambda x: 2 - x * 3 + x / 4, ("[n]",), ((3,),)),
    ("right", lambda x: (2 / (x + 2)) ** 2 - (-x), ("[n,m]",), ((3, 2),)),
    ("power of a number", lambda x: 2.0**x, ("[n]",), ((3,),)),
    ("broadcast", lambda x, y: x + y, ("[n,m]", "[m]"), ((3, 4), (4,))),
    ("broadcast one", lambda x, y: x * y, ("[n,1]", "[1,m]"), ((3, 1), (1, 4))),
    ("transposed", lambda x: x.T + x, ("[n,n]",), ((3, 3),)),
    ("matmul", lambda x, y: x @ y, ("[n,m]", "[m,k]"), ((2, 3), (3, 4))),
    ("matmul batch", lambda x, y: x @ y, ("[n,2,3]", "[3,k]"), ((4, 2, 3), (3, 4))),
    ("vectors", lambda x, y: x @ y, ("[n]", "[n]"), ((3,), (3,))),
    ("row", lambda x, y: x @ y, ("[n]", "[n,m]"), ((3,), (3, 2))),
    ("column", lambda x, y: x @ y, ("[n,m]", "[m]"), ((3, 2), (2,))),
    ("several", lambda x: (x, x + 1, [x][0].T), ("[n,m]",), ((2, 3),)),
    ("as it is", lambda x: x, ("[n]",), ((2,),)),
    ("trace", lambda x: einloom.einsum("ii", x), ("[n,n]",), ((3, 3),)),
    ("diagonal", lambda x: einloom.einsum("ii->i", x), ("[n,n]",), ((3, 3),)),
    ("view", lambda x: einloom.einsum("ij->ji", x), ("[n,m]",), ((2, 3),)),
    ("implicit", lambda x, y: einloom.einsum("ij,jk", x, y), ("[n,m]", "[m,k]"), ((2, 3), (3, 2))),
    ("ellipsis", lambda x: einloom.einsum("...i->...", x), ("[n,m,3]",), ((2, 4, 3),)),
    ("size 1", lambda x, y: einloom.einsum("ij,j->i", x, y), ("[n,1]", "[m]"), ((2, 1), (3,))),
    ("size 0", lambda x, y: einloom.einsum("ij,j->i", x, y), ("[n,0]", "[0]"), ((2, 0), (0,))),
    ("name of size 1", lambda x, y: einloom.einsum("ij,jk->ik", x, y), ("[n,m]", "[m,k]"),
     ((1, 1), (1, 1))),
    ("names of size 0", lambda x, y: einloom.einsum("ij,jk->ik", x, y), ("[n,m]", "[m,k]"),
     ((2, 0), (0, 3))),
    ("interleaved", lambda x, y: einloom.einsum(x, [0, 1], y, [1, 2], [2, 0]), ("[n,m]", "[m,k]"),
     ((2, 3), (3, 4))),
    ("path", lambda x, y, z: einloom.einsum("ij,jk,kl->il", x, y, z, optimize=[(0, 1), (0, 1)]),
     ("[n,m]", "[m,k]", "[k,2]"), ((2, 3), (3, 4), (4, 2))),
    ("one step", lambda x, y, z: einloom.einsum("ij,jk,kl->il", x, y, z, optimize=False),
     ("[n,m]", "[m,k]", "[k,2]"), ((2, 3), (3, 4), (4, 2))),
    ("alpha", lambda x, y: einloom.einsum("ij,j->i", x, y, alpha=2.5), ("[n,m]", "[m]"),
     ((2, 3), (3,))),
    ("embedded", lambda x: einloom.einsum("i->ii", x, embed_diagonal=True), ("[n]",), ((3,),)),
    ("tensordot", lambda x, y: einloom.tensordot(x, y, 1), ("[n,m]", "[m,k]"), ((2, 3), (3, 4))),
    ("transpose", lambda x: einloom.transpose(x, (1, 0)), ("[n,m]",), ((2, 3),)),
    ("transpose by default", lambda x: einloom.transpose(x), ("[n,m,2]",), ((2, 3, 2),)),
    ("ncon", lambda x, y: einloom.ncon([x, y], [[-1, 1], [1, -2]]), ("[n,m]", "[m,k]"),
     ((2, 3), (3, 4))),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize(
    ("fn", "specs", "shapes"), [row[1:] for row in FUNCTIONS], ids=[row[0] for row in FUNCTIONS]
)
def test_traced_is_run(
    fn: Callable[..., Any],
    specs: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    rng: np.random.Generator,
) -> None:
    """A template bound to the shapes of arrays does with them what the function does."""
    template = trace(fn, *(dtype + spec for spec in specs), sizes=SIZES)
    arrays = [np.asarray(rng.random(shape).astype(dtype)) for shape in shapes]
    if dtype == "complex64":
        arrays = [np.asarray(x * (1 + 0.5j), dtype) for x in arrays]
    got, want = run(template, *arrays), fn(*arrays)
    several = isinstance(want, tuple)
    pairs = zip(got, want, strict=True) if several else [(got, want)]
    for one, right in pairs:
        assert one.shape == np.shape(right)
        assert one.dtype == np.asarray(right).dtype
        np.testing.assert_allclose(one, right, rtol=1e-5, atol=1e-6)


def test_integers_need_no_sizes(rng: np.random.Generator) -> None:
    template = trace(network, (5, 3), [3, 4], np.ones((4, 2)))
    arrays = [rng.random(shape) for shape in ((5, 3), (3, 4), (4, 2))]
    np.testing.assert_allclose(run(template, *arrays), network(*arrays))


def test_contractions_of_names_need_sizes() -> None:
    with pytest.raises(OptionError, match=r'm, n has no size to plan for; pass sizes=\{"m": 100'):
        trace(lambda x: einloom.einsum("ij->j", x), ("n", "m"))
    trace(lambda x: x + x, ("n", "m"))  # which nobody plans


def test_sizes_decide_the_plan() -> None:
    def chain(x: Any, y: Any, z: Any) -> Any:
        return einloom.einsum("ij,jk,kl->il", x, y, z)

    specs = (("n", "m"), ("m", "k"), ("k", "l"))
    left = trace(chain, *specs, sizes={"n": 2, "m": 50, "k": 50, "l": 50})
    right = trace(chain, *specs, sizes={"n": 50, "m": 50, "k": 50, "l": 2})
    assert [set(t.instructions[0].inputs) for t in (left, right)] == [{0, 1}, {1, 2}]


def test_forms_of_arguments() -> None:
    for spec in ("float32[n,3]", " float32 [ n , 3 ] ", ArraySpec(np.dtype("f4"), (dim("n"), 3))):  # type: ignore[arg-type]
        assert str(trace(lambda x: x, spec)).startswith("template(%0: float32[n,3])")
    assert str(trace(lambda x: x, ("n", 2 * dim("n")), dtype="f4")).startswith(
        "template(%0: float32[n,2*n])"
    )
    assert str(trace(lambda: (), sizes=None)) == "template()\n  return "
    assert str(trace(lambda x: x, "int8[]")).startswith("template(%0: int8[])")


PROMOTED: list[tuple[str, Callable[[Any], Any], str]] = [
    ("int8", lambda x: x + 1, "int8"),
    ("int8", lambda x: x + 1.5, "float64"),
    ("int32", lambda x: x / 2, "float64"),
    ("float32", lambda x: x * 2.5, "float32"),
    ("float32", lambda x: x * np.float64(2.5), "float64"),
    ("float32", lambda x: x + 1j, "complex64"),
    ("bool", lambda x: x * 2, "int64"),
    ("complex64", abs, "float32"),
]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="the rules of NumPy 2")
@pytest.mark.parametrize(("dtype", "fn", "want"), PROMOTED)
def test_promotion_is_numpys(dtype: str, fn: Callable[[Any], Any], want: str) -> None:
    x = np.array([0, 1, 1], dtype)
    got = run(trace(fn, f"{dtype}[n]"), x)
    assert got.dtype == want == fn(x).dtype
    np.testing.assert_allclose(got, fn(x))


def test_what_a_traced_value_shows() -> None:
    def look(x: Any) -> Any:
        assert (x.shape, x.ndim, x.dtype) == ((dim("n"), 3), 2, np.dtype("float32"))
        assert (x.T.shape, repr(x)) == ((3, dim("n")), "<traced float32[n,3]>")
        assert einloom.plan("ij->j", x).network.shapes == ((20, 3),)
        return +x

    trace(look, "float32[n,3]", sizes=SIZES)


REFUSED: list[tuple[str, Callable[[Any], Any]]] = [
    ("equal", lambda x: x == x),
    ("not equal", lambda x: x != 1),
    ("less", lambda x: x < 1),
    ("greater or equal", lambda x: x >= 1),
    ("truth", lambda x: not x),
    ("float", float),
    ("int", int),
    ("complex", complex),
    ("index", lambda x: [1, 2][x]),
    ("iteration", list),
    ("unpacking", lambda x: (lambda a, b: a)(*x)),
    ("length", len),
    ("item", lambda x: x[0]),
    ("in", lambda x: 1 in x),
    ("asarray", np.asarray),
    ("numpy's einsum", lambda x: np.einsum("i->i", x)),
    ("numpy's exp", np.exp),
    ("numpy's sum", np.add.reduce),
    ("array on the left", lambda x: np.ones(3) + x),
    ("array on the right", lambda x: x * np.ones(3)),
    ("list", lambda x: x * [1, 2]),
    ("text", lambda x: x + "a"),
    ("matmul of an array", lambda x: x @ np.ones(3)),
    ("matmul by an array", lambda x: np.ones(3) @ x),
    ("matmul of a number", lambda x: x @ 2),
    ("einsum with an array", lambda x: einloom.einsum("i,i", x, np.ones(3))),
    ("einsum into an array", lambda x: einloom.einsum("i->", x, out=np.ones(()))),
    ("einsum onto an array", lambda x: einloom.einsum("i->", x, beta=1)),
    ("an expression", lambda x: einloom.compile("i->", (3,))(x)),
    ("result of no value", lambda x: 1.0),
    ("result of nothing", lambda x: None),
    ("result among others", lambda x: (x, np.ones(3))),
]


@pytest.mark.parametrize("fn", [row[1] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(fn: Callable[[Any], Any]) -> None:
    """What would need numbers, and what would put numbers of now into the program."""
    with pytest.raises(TypeError) as caught:
        trace(fn, (3,))
    assert isinstance(caught.value, (EinloomError, TypeError))


def test_messages() -> None:
    with pytest.raises(ConversionError, match=r"<traced float64\[3\]> has no numbers yet"):
        trace(float, (3,))
    with pytest.raises(CallError, match="must be an argument of the traced function"):
        trace(lambda x: x + np.ones(3), (3,))
    with pytest.raises(CallError, match="einsum: operand 1 is a ndarray"):
        trace(lambda x: einloom.einsum("i,i", x, np.ones(3)), (3,))
    with pytest.raises(CallError, match="trace: a result is a float"):
        trace(lambda x: 1.0, (3,))
    with pytest.raises(OptionError, match="no order in memory"):
        trace(lambda x: einloom.einsum("ij->ji", x, order="F"), (3, 2))
    with pytest.raises(ShapeError, match=r"add: shapes \(3,\) and \(4,\) do not broadcast"):
        trace(lambda x, y: x + y, (3,), (4,))
    with pytest.raises(ShapeError, match=r"do not broadcast"):
        trace(lambda x, y: x + y, ("n",), (dim("n") + 1,))
    with pytest.raises(ShapeError, match="need an axis"):
        trace(lambda x, y: x @ y, (), (3,))


def test_leaked_values() -> None:
    """Neither in another trace nor after their own."""
    kept: list[Traced] = []
    trace(lambda x: kept.append(x) or x, ("n",))
    for use in (lambda: kept[0] + 1, lambda: abs(kept[0]), lambda: einloom.einsum("i->", kept[0])):
        with pytest.raises(CallError, match="a value of another trace"):
            use()
    for inside in (
        lambda x: x + kept[0],
        lambda x: kept[0] * x,
        lambda x: kept[0],
        lambda x: einloom.einsum("i,i", x, kept[0]),
        lambda x: x @ kept[0],
    ):
        with pytest.raises(CallError, match="a value of another trace"):
            trace(inside, ("n",), sizes=SIZES)


def test_a_trace_inside_a_trace() -> None:
    inner: list[ProgramTemplate] = []

    def outer(x: Any) -> Any:
        inner.append(trace(lambda y: y * 2, ("n",)))
        with pytest.raises(CallError, match="another trace"):
            trace(lambda y: y * x, ("n",))
        return x + 1

    template = trace(outer, ("n",))
    assert [ins.op for ins in template.instructions][-1] == "add"
    assert [ins.op for ins in inner[0].instructions][-1] == "multiply"


def test_what_the_function_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 / 0, (3,))


SPECS: list[tuple[Any, type[Exception]]] = [
    ("n", OptionError),
    ("float64", OptionError),
    ("float64[n", OptionError),
    ("float64[-1]", EinloomError),
    ("float64[n+1]", EinloomError),
    ("float65[n]", DTypeError),
    ((-1,), ShapeError),
    ((2.5,), EinloomError),
    (3, CallError),
    (None, CallError),
    (("n m",), EinloomError),
]


@pytest.mark.parametrize(("spec", "error"), SPECS, ids=[str(row[0]) for row in SPECS])
def test_bad_specs(spec: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        trace(lambda x: x, spec)


@pytest.mark.parametrize("sizes", [{"n": 2.5}, {"n": -1}, {"n": "3"}, {"n": True}, {"n m": 3}])
def test_bad_sizes(sizes: Any) -> None:
    with pytest.raises(EinloomError):
        trace(lambda x: x, ("n",), sizes=sizes)


def test_sizes_that_disagree_when_bound() -> None:
    template = trace(
        lambda x, y: einloom.einsum("ij,jk->ik", x, y),
        ("n", "m"),
        ("k", 2),
        sizes=dict.fromkeys("nmk", 9),
    )
    template.bind([(2, 3), (3, 2)])
    with pytest.raises(EinloomError, match=r"bind: instruction 0 \(dot_general\): .*differ"):
        template.bind([(2, 3), (4, 2)])
