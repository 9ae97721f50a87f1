"""Fused chains, copies, grouped products, graphs and contexts on a GPU, beside the CPU. Skipped where there
is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.backend.chains import FORMULAS, Chain, assert_chain, inputs_of, random_chain
from tests.backend.gpu.test_graphs import chain, executable
from tests.backend.gpu.test_grouped import DTYPES, pairs_of
from tests.backend.test_gpu import random_product
from tests.on_card import MARKS, down, up

import einloom
from einloom import Code, Context, Node, backend
from einloom._base.errors import Unsupported
from einloom.backend.fusion import ElementwiseFusionPlan
from einloom.backend.gpu import cutensor
from einloom.backend.gpu.cuda.pieces import way_of
from einloom.backend.gpu.cuda.thin import MOST_TERMS
from einloom.backend.gpu.launch import card_of
from einloom.backend.gpu.move import contiguous
from einloom.backend.gpu.product import Product
from einloom.backend.gpu.tiles import CAPABILITY
from einloom.backend.rules import dot_dims
from einloom.backend.spec import ArraySpec
from einloom.program.executable import Executable

pytestmark = MARKS


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, rng: np.random.Generator) -> None:
    gpu = backend.get("gpu")
    chain = random_chain(rng, (), ops=FORMULAS)
    while gpu.fuse(chain.plan) is None:
        chain = random_chain(rng, (), ops=FORMULAS)
    for shape in ((5,), (3, 40), (2, 3, 7), (0, 3), (1000, 300)):
        inputs = tuple(ArraySpec(spec.dtype, shape) for spec in chain.plan.inputs)
        plan = ElementwiseFusionPlan(inputs, chain.plan.steps, chain.plan.outputs)
        arrays = inputs_of(plan, ("C",), rng)
        kernel: Any = gpu.fuse(plan)
        found = kernel(*map(gpu.to_device, arrays))
        several = found if isinstance(found, tuple) else (found,)
        got = tuple(gpu.to_host(x) for x in several)
        assert_chain(Chain(plan, chain.known), arrays, got, f"{seed=}: ")


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_permutations(dtype: str, rng: np.random.Generator) -> None:
    gpu: Any = backend.get("gpu")
    for shape, order in (
        ((70, 80), (1, 0)),
        ((33, 7, 40), (2, 1, 0)),
        ((2,) * 14, (13, *range(13))),
        ((2,) * 20, tuple(range(19, -1, -1))),
        ((3,) * 12, (11, 3, 7, 0, 9, 5, 1, 8, 2, 10, 4, 6)),
        ((1030, 1001), (1, 0)),
        ((72, 6, 40, 12), (3, 0, 2, 1)),
        ((36, 11, 34, 16), (2, 3, 1, 0)),
    ):
        x = rng.integers(0, 100, shape).astype(dtype)
        found = contiguous(gpu.xp, gpu.to_device(x).transpose(order))
        np.testing.assert_array_equal(gpu.to_host(found), x.transpose(order))


@pytest.mark.parametrize("dtype", ["u1", "i4", "f2", "f4", "f8", "c8", "c16"])
def test_outer_products(dtype: str, rng: np.random.Generator) -> None:
    """At addresses that allow wide reads and writes and at such as do not, of odd sizes too."""
    for n, first in ((1500, 0), (1501, 0), (1500, 1)):
        x, y = (rng.integers(0, 9, n + first).astype(dtype) for _ in range(2))
        on = up(x)[first:], up(y)[first:]
        want = np.multiply.outer(x[first:], y[first:])
        np.testing.assert_array_equal(down(einloom.einsum("i,j->ij", *on)), want)
        np.testing.assert_array_equal(down(einloom.einsum("i,j->ji", *on)), want.T)
        both = up(want)
        found = einloom.einsum("ij,ij->ij", both[first:], both[first:])
        np.testing.assert_array_equal(down(found), want[first:] * want[first:])
        room = up(np.zeros((n, n + 1), dtype))
        einloom.einsum("i,j->ij", *on, out=room[:, 1:])
        np.testing.assert_array_equal(down(room)[:, 1:], want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_grouped_products(dtype: str, rng: np.random.Generator) -> None:
    pairs = pairs_of(dtype, rng)
    want = einloom.gemm_batch(pairs, alpha=2)
    found = einloom.gemm_batch([(up(a), up(b)) for a, b in pairs], alpha=2)
    for x, y in zip(found, want, strict=True):
        np.testing.assert_array_equal(down(x), y)
    large = [(rng.standard_normal((70, 90)), rng.standard_normal((90, 80)))]
    (found,) = einloom.gemm_batch([(up(a), up(b)) for a, b in large])
    np.testing.assert_allclose(down(found), large[0][0] @ large[0][1], atol=1e-11)


def test_sums_with_one_target(rng: np.random.Generator) -> None:
    whole = np.ones((6, 9))
    other = up(whole)

    def blocks(x: Any) -> list[Any]:
        return [x[:2, :4], x[2:, 4:], x[:2, :4]]

    pairs = [
        (rng.integers(-4, 5, (len(x), 3)) * 1.0, np.ones((3, x.shape[1]))) for x in blocks(whole)
    ]
    einloom.gemm_batch(pairs, out=blocks(whole), alpha=3, beta=-2)
    on = [(up(a), up(b)) for a, b in pairs]
    einloom.gemm_batch(on, out=blocks(other), alpha=3, beta=-2)
    np.testing.assert_array_equal(down(other), whole)


# ---- few terms ----------------------------------------------------------------------------------

THIN: dict[str, tuple[str, dict[str, int]]] = {
    "as they lie": ("mk,kn->mn", {"m": 6100, "n": 6030, "k": 24}),
    "turned": ("km,nk->mn", {"m": 6016, "n": 5990, "k": 7}),
    "of several axes": ("aibk,bcjk->aijc", {"a": 40, "i": 160, "b": 4, "j": 63, "c": 95, "k": 5}),
    "in batches": ("bmk,bkn->bmn", {"b": 3, "m": 3501, "n": 3513, "k": 23}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", THIN)
def test_few_terms(dtype: str, name: str, rng: np.random.Generator) -> None:
    """By tiles of einloom's own where the card has them, to the last bit: called, and called again."""
    gpu: Any = backend.get("gpu")
    equation, sizes = THIN[name]
    left, right, out = equation.replace("->", ",").split(",")
    x, y = (rng.integers(-8, 9, [sizes[k] for k in term]).astype(dtype) for term in (left, right))
    want = np.einsum(equation, x, y, optimize=True)
    shared = [label for label in left if label in right]
    attrs = {
        role: tuple(
            tuple(term.index(k) for k in shared if (k in out) is kept) for term in (left, right)
        )
        for role, kept in (("batch", True), ("contracting", False))
    }
    a, b = up(x), up(y[..., ::-1].copy()[..., ::-1])  # its last axis lies backwards
    product = Product(gpu.xp, attrs, (ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape)))
    if card_of(gpu.xp).capability == CAPABILITY:
        assert product.rung(a, b) == "thin"
    for _ in range(2):
        np.testing.assert_array_equal(down(einloom.einsum(equation, a, b)), want)
    room = up(np.zeros((*want.shape, 2), dtype))
    einloom.einsum(equation, a, b, out=room[..., 0])
    np.testing.assert_array_equal(down(room)[..., 0], want)


PIECES = {  # equation and sizes: in parts, batches, the transpose; of whatever axes
    "as they lie": ("mk,kn->mn", {"m": 1030, "n": 2060, "k": 1000}),
    "by columns": ("km,nk->mn", {"m": 1500, "n": 1500, "k": 701}),
    "in parts": ("mk,nk->mn", {"m": 250, "n": 380, "k": 30000}),
    "of several axes": ("aibk,bcjk->aijc", {"a": 40, "i": 40, "b": 20, "j": 30, "c": 45, "k": 33}),
    "in batches": ("bmk,bkn->bmn", {"b": 3, "m": 1501, "n": 1090, "k": 410}),
    "of few rows": ("km,kn->mn", {"m": 96, "n": 200000, "k": 128}),
    "taken apart before": ("mk,nk->mn", {"m": 2040, "n": 2048, "k": 2050}),
    "the same in batches": ("kbm,bkn->bmn", {"b": 2, "m": 1900, "n": 2000, "k": 901}),
    "of few terms": ("mk,kn->mn", {"m": 9100, "n": 9500, "k": 24}),
    "copied first": ("jnim,kmln->ijkl", {"i": 40, "j": 30, "k": 40, "l": 30, "m": 30, "n": 40}),
}


@pytest.mark.parametrize(
    "holds", ["integers", "numbers", "few of many", "what is not finite", "tiny numbers"]
)
@pytest.mark.parametrize("name", PIECES)
def test_pieces(name: str, holds: str, rng: np.random.Generator) -> None:
    """Where the card multiplies float32 in pieces: integers to the last bit, others much closer than one term
    after another is sure to be, and those that pieces do not hold as close as that is likely to be; called,
    called again, and on arrays that begin elsewhere."""
    gpu: Any = backend.get("gpu")
    equation, sizes = PIECES[name]
    left, right, out = equation.replace("->", ",").split(",")
    shapes = [[sizes[k] for k in term] for term in (left, right)]
    if holds == "integers":
        x, y = (rng.integers(-9, 10, shape).astype("f4") for shape in shapes)
    else:
        x, y = (rng.standard_normal(shape, "f4") for shape in shapes)
    terms = math.prod(sizes[k] for k in set(left) & set(right) - set(out))
    if holds == "few of many":  # an error of each product stands out, which sums of many would hide
        x[rng.random(x.shape, "f4") >= 8 / terms] = 0
    if holds == "what is not finite":
        for one in (x, y):
            one.reshape(-1)[rng.integers(0, one.size, 4)] = np.inf, -np.inf, np.nan, 3.4e38
    if holds == "tiny numbers":
        x *= np.float32(2) ** rng.integers(-120, -90, x.shape).astype("f4")
        x.reshape(-1)[rng.integers(0, x.size, x.size // 4)] = 0
    a, b = up(x), up(y)
    shared = [label for label in left if label in right]
    attrs = {
        role: tuple(
            tuple(term.index(k) for k in shared if (k in out) is kept) for term in (left, right)
        )
        for role, kept in (("batch", True), ("contracting", False))
    }
    product_specs = (ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape))
    product = Product(gpu.xp, attrs, product_specs)
    if card_of(gpu.xp).capability == CAPABILITY:
        assert product.rung(a, b) == ("thin" if terms <= MOST_TERMS else "pieces")
        if name == "taken apart before":  # on a whole H200; of others it is not known
            assert way_of(1, 2040, 2048, 2050, 132)[0].is_apart
    wide, sums = (
        gpu.xp.einsum(equation, *(f(one.astype("f8")) for one in (a, b)))
        for f in (gpu.xp.asarray, gpu.xp.abs)
    )
    want = wide.astype("f4")
    is_finite = gpu.xp.isfinite(want)
    most_of = gpu.xp.einsum(equation, *(gpu.xp.abs(finite(gpu.xp, one)) for one in (a, b)))
    # beyond, infinities of float32 may cancel, or meet where double precision has a number
    is_finite, is_told = is_finite & (most_of < 3e38), ~is_finite & (most_of < 3e38)
    memory = gpu.xp.empty(a.size + 1, "f4")[1:].reshape(a.shape)  # where nothing is read at once
    memory[...] = a
    for one in (a, a, memory):
        found = einloom.einsum(equation, one, b)
        gpu.xp.testing.assert_array_equal(found[is_told], want[is_told])
        if holds == "integers":
            gpu.xp.testing.assert_array_equal(found, want)
        error = gpu.xp.abs(found - wide)[is_finite]
        of_numbers = 3 if terms <= MOST_TERMS else terms / 100
        most = {"numbers": of_numbers, "few of many": 4}.get(holds, 2 * terms**0.5)
        assert bool((error <= (2 + most) * 2.0**-24 * sums[is_finite] + 2.0**-149).all())
    with einloom.options(precision="ieee"):
        plain = Product(gpu.xp, attrs, product_specs)
        assert plain.rung(a, b) != "pieces"
        same = einloom.einsum(equation, a, b)
    gpu.xp.testing.assert_array_equal(same[is_told], want[is_told])
    error = gpu.xp.abs(same - wide)[is_finite]
    assert bool((error <= (2 + terms) * 2.0**-24 * sums[is_finite] + 2.0**-149).all())


def finite(xp: Any, x: Any) -> Any:
    """In double precision, 0 where it is not finite."""
    return xp.where(xp.isfinite(x), x, 0).astype("f8")


@pytest.mark.parametrize("is_apart", [False, True])
def test_pieces_in_a_graph(is_apart: bool, rng: np.random.Generator) -> None:
    """It finds its code where that was when it was captured, whatever is cleared meanwhile."""
    gpu: Any = backend.get("gpu")
    shape = (2040, 2050) if is_apart else (1500, 701)
    assert way_of(1, shape[0], shape[0], shape[1], 132)[0].is_apart == is_apart
    run = executable(lambda x: einloom.einsum("ij,kj->ik", x, x), shape, backend=gpu)
    x = up(rng.integers(-9, 10, shape).astype("f4"))
    captured: Any = run.capture(x)
    einloom.clear_caches()
    for _ in range(2):
        here = down(x)
        np.testing.assert_array_equal(down(captured()), here @ here.T)
        x[...] = gpu.to_device(rng.integers(-9, 10, x.shape).astype("f4"))


@pytest.mark.parametrize("k", [300, 1500])  # added by cuBLAS, and to what pieces made
def test_added_to_products(k: int, rng: np.random.Generator) -> None:
    gpu: Any = backend.get("gpu")
    x, y = (rng.integers(-9, 10, shape).astype("f4") for shape in ((1400, k), (k, 1501)))
    z = rng.integers(-9, 10, (1400, 1501)).astype("f4")
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,)), "alpha": 2, "beta": -3}
    want = 2 * (x @ y) - 3 * z
    a, b, c = up(x), up(y), up(z)
    for out in (None, c):
        for one in (b, b[:, ::-1][:, ::-1], up(np.asfortranarray(y))):
            c[...] = gpu.to_device(z)
            found = gpu.apply("dot_general_add", attrs, a, one, c, out=out)
            np.testing.assert_array_equal(down(found), want)


# ---- cuTENSOR -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_cutensor(dtype: str, rng: np.random.Generator) -> None:
    """Called on whatever it takes, whether the ladder would or not; integers come out exactly."""
    gpu: Any = backend.get("gpu")
    if cutensor.module(gpu.xp) is None:
        pytest.skip("cuTENSOR cannot be imported")
    taken = 0
    for number in range(60):
        attrs, x, y = random_product(rng, dtype, int(rng.choice([3, 7, 12])))
        a, b = up(x), up(y)
        dims = dot_dims(attrs, x.shape, y.shape)
        if not (x.size and y.size and cutensor.takes(gpu.xp, a.dtype, a, b)):
            continue
        want = backend.get().apply("dot_general", attrs, x, y)
        out = gpu.xp.empty((*want.shape, 2), dtype)[..., 0] if number % 2 else None
        found = cutensor.contract(gpu.xp, a, b, dims, want.shape, out)
        if found is None:  # it may refuse
            continue
        assert out is None or found is out
        np.testing.assert_array_equal(down(found), want)
        taken += 1
    assert taken > 20


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_cutensor_on_its_rung(dtype: str, rng: np.random.Generator) -> None:
    """Called, called again on arrays that lie otherwise, and inside a graph."""
    gpu: Any = backend.get("gpu")
    if cutensor.module(gpu.xp) is None:
        pytest.skip("cuTENSOR cannot be imported")
    x, y = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((40, 70, 50), (50, 40, 20)))
    attrs = {"contracting": ((0, 2), (1, 0)), "batch": ((), ())}
    a, b = up(x), up(y)
    product = Product(gpu.xp, attrs, (ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape)))
    assert product.rung(a, b) == "cutensor"
    want = np.einsum("aib,baj->ij", x, y)
    for one in (a, up(np.asfortranarray(x)), a):
        np.testing.assert_array_equal(down(product(one, b)), want)
    for _ in range(12):
        np.testing.assert_array_equal(
            down(einloom.einsum("aib,baj,jk->ik", a, b, b[0, :, :].T)), want @ y[0].T
        )


# ---- graphs -------------------------------------------------------------------------------------


def test_graphs(rng: np.random.Generator) -> None:
    """A graph played again computes on what its arrays then hold."""
    gpu: Any = backend.get("gpu")
    run = executable(chain, (20, 3, 3), (20, 3, 3), backend=gpu)
    x, y = (up(rng.standard_normal((20, 3, 3)).astype("f4")) for _ in range(2))
    captured: Any = run.capture(x, y)
    for _ in range(3):
        found = captured()
        a, b = down(x), down(y)
        want = np.einsum("bij,bjk->bik", np.abs(a) + a * a, b)
        np.testing.assert_allclose(down(found), want, rtol=1e-5, atol=1e-5)
        x[...] = gpu.to_device(rng.standard_normal(x.shape).astype("f4"))


CAPTURED = {
    "reduction": (lambda x: einloom.einsum("ij,ij->j", x, x), (3000, 40)),
    "long reduction": (lambda x: einloom.einsum("ij->", 2 * x), (3000, 400)),
    "permutation": (lambda x: einloom.einsum("abc->cab", x) + 1, (40, 30, 50)),
    "products": (lambda x: einloom.einsum("ij,kj,kl->il", x, x, x), (70, 60)),
    "packed": (lambda x: einloom.einsum("abc,dbe->acde", x, x), (10, 70, 6)),
    "softmax": (lambda x: einloom.softmax(x, axis=1), (30, 100)),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_programs_as_graphs(name: str, rng: np.random.Generator) -> None:
    function, shape = CAPTURED[name]
    run = executable(function, shape, backend=backend.get("gpu"))
    here = executable(function, shape, backend=backend.get())
    x = up(rng.standard_normal(shape).astype("f4"))
    captured: Any = run.capture(x)
    for _ in range(2):
        np.testing.assert_allclose(
            down(captured()), here(down(x)), rtol=1e-4, atol=1e-2 if "long" in name else 1e-4
        )
        x *= 1.25


def test_what_is_no_graph() -> None:
    x = up(np.ones((100, 100), "f4"))
    run = executable(lambda x: einloom.linalg.cholesky(x), (3, 3), backend=backend.get("gpu"))
    with pytest.raises(Unsupported, match="cholesky"):
        run.capture(x[:3, :3])
    np.testing.assert_array_equal(down(x @ x), np.full((100, 100), 100.0))  # the stream is free


# ---- contexts -----------------------------------------------------------------------------------


def test_routines() -> None:
    a, b = (Node(name, (2, 3)) for name in "ab")
    x = np.arange(6.0).reshape(2, 3)
    ten = Node.constant("ten", np.full(3, 10.0))
    with Context("gpu:0") as root:
        held = root.put({a: x}).zeros(b)
        assert np.array_equal(held.get(a), x)
        routine = held.link(Code(lambda a, ten: 2 * a + ten, [a, ten], [b]))
        routine.run()
        assert np.array_equal(routine.context.get(b), 2 * x + 10)
        routine.context.set(a, -x)
        assert routine.submit().result(10) is None
        assert np.array_equal(routine.context.get(b), -2 * x + 10)
    einloom.device("gpu:0").close()


def test_profiles_and_executables(rng: np.random.Generator) -> None:
    """Program by program as on the CPU, with and without fusion, and with an `out`."""
    gpu: Any = backend.get("gpu")

    def steps(x: Any, y: Any) -> Any:
        z = einloom.einsum("ij,jk->ik", abs(x) * 2, y)
        return einloom.softmax(z, axis=1) + einloom.einsum("ij->j", y)

    program = einloom.trace(steps, (30, 40), (40, 50), dtype="float64").bind([(30, 40), (40, 50)])
    x, y = (rng.standard_normal(shape) for shape in ((30, 40), (40, 50)))
    want = Executable(program, backend.get())(x, y)
    for fuse in (True, False):
        for small in (0, 1 << 20):
            with einloom.options(small=small):
                run = Executable(program, gpu, fuse=fuse)
            for _ in range(3):
                np.testing.assert_allclose(down(run(up(x), up(y))), want, rtol=1e-9, atol=1e-12)
