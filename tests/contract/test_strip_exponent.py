"""strip_exponent=True: mantissa * 10**exponent is the result, whatever its size."""

from __future__ import annotations

import math
import pickle
import random
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out
from tests.networks import FAMILIES, chain, grid, random_network

import einloom
from einloom import CallError, DTypeError, Network, OptionError, Plan, ShapeError
from einloom.backend.cpu import cpu
from einloom.contract.expression import Expression
from einloom.demo.ising import ising_network, kaufman_log_partition
from einloom.program.serial import program_from_json, program_to_json

INF, NAN = math.inf, math.nan
EPS = {"e": 1e-3, "f": 2e-6, "d": 4e-15, "g": 4e-15, "F": 2e-6, "D": 4e-15, "G": 4e-15}
SLACK = 512 << 10  # Python's own objects, and the buffers of NumPy's loops


def strip(*operands: Any, **keywords: Any) -> tuple[Any, float]:
    mantissa, exponent = einloom.einsum(*operands, strip_exponent=True, **keywords)
    assert type(exponent) is float
    return mantissa, exponent


def log10(mantissa: Any, exponent: float) -> float:
    return math.log10(mantissa) + exponent


def integers(r: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray:
    x: Any = r.integers(-3, 4, shape)
    return np.asarray(
        x + 1j * r.integers(-3, 4, shape) if np.dtype(dtype).kind == "c" else x, dtype
    )


def exact(network: Network, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The contraction of small integers, in Python's own."""
    wide = ["c16" if x.dtype.kind == "c" else "i8" for x in operands]
    given = [x.astype(dtype).astype(object) for x, dtype in zip(operands, wide, strict=True)]
    arguments = [item for pair in zip(given, network.inputs, strict=True) for item in pair]
    result = einloom.einsum(*arguments, network.output, embed_diagonal=True)
    return np.asarray(result, object)


def assert_is(got: tuple[Any, float], want: np.ndarray, power: int, eps: float) -> None:
    """mantissa * 10**exponent = want * 2**power, as exact numbers."""
    mantissa, exponent = got
    assert np.shape(mantissa) == want.shape
    assert exponent == math.floor(exponent)
    size = max((max(abs(z.real), abs(z.imag)) for z in want.flat), default=0)
    if not size:
        assert exponent == 0
        assert not np.any(mantissa)
        return
    largest = float(max(np.abs(np.real(mantissa)).max(), np.abs(np.imag(mantissa)).max()))
    assert 1 - eps <= largest < 10 * (1 + eps)
    scale = Fraction(2) ** power / Fraction(10) ** int(exponent)
    for m, z in zip(np.ravel(mantissa), want.flat, strict=True):
        for part in ("real", "imag"):
            ours, theirs = float(getattr(m, part)), Fraction(getattr(z, part)) * scale
            assert abs(Fraction(ours) - theirs) <= eps * size * scale


# ---- known answers --------------------------------------------------------------------------------


def test_a_chain_of_matrices_beyond_every_float() -> None:
    """(1e10 [[2, 1], [1, 1]])**1000 = 1e10000 times Fibonacci numbers."""
    step = np.array([[2.0, 1.0], [1.0, 1.0]])
    network = chain(1000)
    expression = einloom.compile(network, strip_exponent=True)
    want = np.array([[2, 1], [1, 1]], object)
    power = np.linalg.matrix_power(want, 1000)
    for unit in (1e10, 1e-10, 1.0):
        mantissa, exponent = expression(*[unit * step] * 1000)
        digits = len(str(power[0, 0])) - 1
        assert exponent == 1000 * round(math.log10(unit)) + digits
        ours = [float(Fraction(x, 10**digits)) for x in power.flat]
        np.testing.assert_allclose(mantissa.ravel(), ours, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_a_product_of_many_numbers(dtype: str, rng: np.random.Generator) -> None:
    numbers = np.exp(rng.uniform(-60, 80, 400)).astype(dtype)
    got = strip("," * 399 + "->", *numbers)
    want = sum(math.log10(abs(complex(x))) for x in numbers)
    assert log10(abs(got[0]), got[1]) == pytest.approx(want, rel=EPS[np.dtype(dtype).char] * 10)


@pytest.mark.parametrize(("length", "beta"), [(4, 0.0), (4, 0.44), (4, 300.0), (6, 40.0)])
def test_partition_functions(length: int, beta: float) -> None:
    """The Ising model on a torus; at beta = 300, Z = e**9600."""
    inputs, _, sizes, arrays = ising_network(length, beta)
    network = Network(inputs, (), sizes)
    mantissa, exponent = einloom.compile(network, strip_exponent=True)(*arrays)
    got = math.log(mantissa) + exponent * math.log(10)
    assert got == pytest.approx(kaufman_log_partition(length, beta), rel=1e-13)


def test_transfer_matrices() -> None:
    """A ring of 3000 sites in a field: the logarithm of a sum of powers of eigenvalues."""
    sites, beta, field = 600, 2.0, 0.3
    spin = np.array([1.0, -1.0])
    t = np.exp(beta * np.outer(spin, spin) + field * (spin[:, None] + spin) / 2)
    eigenvalues = np.linalg.eigvalsh(t)
    terms = [item for k in range(sites) for item in (t, (k, (k + 1) % sites))]
    got = strip(*terms, (), optimize="greedy")
    assert log10(*got) == pytest.approx(sites * math.log10(eigenvalues[-1]), rel=1e-13)


def test_a_step_does_not_overflow() -> None:
    big, tiny = np.full((2, 2), 1e300), np.full((2, 2), 5e-324)
    for x, power in ((big, 600), (tiny, -647)):
        mantissa, exponent = strip("ij,jk->ik", x, x)
        assert exponent == power
        assert np.all(mantissa == mantissa[0, 0])
    assert strip("i->", np.full(5, 1.7e308))[1] == 308
    most = np.finfo("f8").max * (1 + 1j)
    assert strip("i,i->", np.full(3, most), np.full(3, most))[1] == 617
    assert strip("i,i,i,i,i", *[np.full(3, 1e-150)] * 5, optimize=False)[1] == -750


def test_powers_of_ten_are_whole() -> None:
    for power in (-300, -1, 0, 1, 2, 3, 22, 300):
        mantissa, exponent = strip("->", 10.0**power)
        assert exponent == power
        assert mantissa == pytest.approx(1, abs=1e-15)


def test_zeros() -> None:
    for operands in (("i,i", np.zeros(3), np.full(3, 1e300)), ("ij->ji", np.zeros((2, 3)))):
        mantissa, exponent = strip(*operands)
        assert exponent == 0
        assert not np.any(mantissa)
    one_row = np.array([[1e-200, 1e-200], [0, 0]])
    assert strip("ij,kj->ik", one_row, one_row)[1] == -400
    for empty in (("i->", np.ones(0)), ("i,j->ij", np.ones(0), np.ones(2)), ("i->i", np.ones(0))):
        mantissa, exponent = strip(*empty)
        assert exponent == 0
        np.testing.assert_array_equal(mantissa, einloom.einsum(*empty))


def test_infinite_and_not_a_number() -> None:
    """They pass through; what is finite beside them is still mantissa * 10**exponent."""
    x, y = np.array([2.0, INF, NAN, 0.0, 3.0]), np.array([3e200, 1.0, 1.0, INF, 1e200])
    mantissa, exponent = strip("i,i->i", x, y)
    np.testing.assert_array_equal(mantissa[1:4], [INF, NAN, NAN])
    np.testing.assert_allclose(mantissa[[0, 4]] * 10**exponent, [6e200, 3e200])
    mantissa, exponent = strip("i,j->ij", np.array([NAN, 1e300]), np.array([1e300, 1e300]))
    assert np.isnan(mantissa[0]).all()
    assert exponent < 600
    mantissa, _ = strip("i->", np.array([INF + 1j, 1]))
    assert mantissa.real == INF


# ---- all kinds of networks ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int) -> None:
    """Small integers times powers of two; whole, in one step, and in slices of random labels."""
    r, g = random.Random(seed), np.random.default_rng(seed)
    network = random_network(r, sizes=(1, 2, 2, 3))
    dtype = r.choice("fdFDg")
    if r.random() < 0.2 and network.output:
        output = [*network.output, r.choice(network.output)]
        network = Network(network.inputs, output, network.sizes, embed_diagonal=True)
    reach = int(np.finfo(dtype).maxexp) - 8
    powers = [r.randint(-reach, reach) for _ in network.shapes]
    plain = [integers(g, shape, dtype) for shape in network.shapes]
    conj = [k for k in range(len(plain)) if r.random() < 0.2]
    operands = [
        lay_out(x * np.ldexp(np.dtype(dtype).type(1).real, p), r.choice(["C", "F"]), g)
        for x, p in zip(plain, powers, strict=True)
    ]
    conjugated = [np.conj(x) if k in conj else x for k, x in enumerate(plain)]
    want = exact(network, conjugated)
    keywords: dict[str, Any] = {"dtype": dtype, "conj": conj, "strip_exponent": True}
    plan = einloom.plan(network, order=r.choice("KCFA"), **keywords)
    carried = sorted(frozenset().union(*network.carried))
    labels = [x for x in carried if network.extents[x] > 1]
    sliced = tuple(r.sample(labels, r.randint(0, min(3, len(labels)))))
    for one in (
        plan,
        einloom.plan(network, planner=False, **keywords),
        replace(plan, sliced=sliced),
        Plan.from_json(plan.to_json()),
    ):
        expression = einloom.compile(one)
        got = expression(*operands)
        assert np.asarray(got[0]).dtype == dtype
        assert_is(got, want, sum(powers), EPS[dtype])
        assert program_from_json(program_to_json(expression.program)) == expression.program


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    network, g = FAMILIES[name], np.random.default_rng(1)
    operands = [integers(g, shape, "f8") for shape in network.shapes]
    got = einloom.compile(network, strip_exponent=True)(*(x * 2.0**900 for x in operands))
    assert_is(got, exact(network, operands), 900 * len(operands), EPS["d"])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precisions(name: str) -> None:
    """Computed in float32; a sliced sum too, and rounded once."""
    pytest.importorskip("ml_dtypes") if name == "bfloat16" else None
    plan = einloom.plan("ij,jk,kl->il", (2, 3), (3, 4), (4, 2), dtype=name, strip_exponent=True)
    x = [np.full(shape, 2.0**14).astype(plan.dtype) for shape in plan.network.shapes]
    for one in (plan, replace(plan, sliced=(1,)), replace(plan, sliced=(0, 2))):
        mantissa, exponent = einloom.compile(one)(*x)
        assert mantissa.dtype == plan.dtype
        got = mantissa.astype("f8") * 10**exponent
        np.testing.assert_allclose(got, 12 * 2.0**42, rtol=2e-2 if name == "bfloat16" else 1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_slices_of_very_different_sizes(dtype: str) -> None:
    """Rising, falling, zero among them; the sum is that of the largest ones."""
    powers = [0, -90, 3, 60, 61, 62, -1000, 100]
    for order in (powers, powers[::-1], sorted(powers)):
        # one slice for each k, 2**p in two factors
        x = np.array([2.0 ** (p / 2) if p > -200 else 0 for p in order], dtype)
        plan = einloom.plan("k,ki->i", x.shape, (8, 3), dtype=dtype, strip_exponent=True)
        y = np.repeat(x[:, None], 3, axis=1)
        mantissa, exponent = einloom.compile(replace(plan, sliced=(0,)))(x, y)
        want = float(sum(2**p for p in order if p > 0))
        np.testing.assert_allclose(mantissa * 10**exponent, np.full(3, want), rtol=1e-5)
    zeros = einloom.compile(replace(plan, sliced=(0, 1)))(x * 0, y)
    assert_is(zeros, np.zeros(3, object), 0, 0)


def test_slices_that_are_not_finite() -> None:
    plan = einloom.plan("k,ki->i", (4,), (4, 3), strip_exponent=True)
    y = np.full((4, 3), 1e300)
    y[1, 0], y[2, 1] = NAN, INF
    mantissa, _ = einloom.compile(replace(plan, sliced=(0,)))(np.full(4, 1e300), y)
    assert np.isnan(mantissa[0])
    assert mantissa[1] == INF


# ---- the fronts -----------------------------------------------------------------------------------


def test_einsum_keeps_both_kinds_apart() -> None:
    """The same equation and operands with and without; from the caches too."""
    a, b = np.full((2, 3), 2.0), np.full((3, 2), 5.0)
    for _ in range(3):
        assert np.all(einloom.einsum("ij,jk->ik", a, b) == 30)
        mantissa, exponent = strip("ij,jk->ik", a, b)
        assert exponent == 1
        np.testing.assert_allclose(mantissa, 3)
    einloom.clear_caches()
    strip("ij,jk->ik", a, b)
    hits = einloom.cache_info()["expressions"].hits
    strip("ij,jk->ik", a, b)
    assert einloom.cache_info()["expressions"].hits == hits + 1


def test_nothing_changes_without() -> None:
    plan = einloom.plan("ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
    assert [ins.op for ins in plan.program.instructions] == ["dot_general"] * 2
    assert not plan.strip_exponent
    assert einloom.plan("i->", (3,), strip_exponent=True).strip_exponent


def test_interleaved_and_ncon() -> None:
    a = np.full((2, 2), 1e200)
    want = strip("ij,jk->ik", a, a)
    for got in (
        strip(a, [0, 1], a, [1, 2], [0, 2]),
        einloom.ncon([a, a], [[-1, 1], [1, -2]], strip_exponent=True),
    ):
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] == want[1] == 400


def test_out_takes_the_mantissa() -> None:
    a = np.full((2, 2), 1e200)
    for out in (np.empty((2, 2)), np.empty((2, 2), order="F"), np.empty((4, 2), "c16")[::2]):
        mantissa, exponent = strip("ij,jk->ik", a, a, out=out)
        assert mantissa is out
        assert exponent == 400
        np.testing.assert_allclose(out, 2)
    mantissa, exponent = strip("ij,jk->ik", a, a, out=a)
    np.testing.assert_allclose(a, 2)
    expression = einloom.compile("ij,jk->ik", (2, 2), (2, 2), strip_exponent=True)
    assert expression(a * 1e200, a, out=a)[0] is a
    plan = replace(expression.plan, sliced=(1, 0))
    mantissa, exponent = einloom.compile(plan)(np.eye(2) * 1e200, a, out=a)
    assert mantissa is a
    with pytest.raises(ShapeError, match="out has shape"):
        strip("ij,jk->ik", a, a, out=np.empty(3))
    with pytest.raises(DTypeError, match="float32"):
        strip("ij,jk->ik", a, a, out=np.empty((2, 2), "f4"))


def test_constants_orders_and_pickles() -> None:
    a, b = np.full((2, 3), 1e200), np.full((3, 4), 1e200)
    expression = einloom.compile("ij,jk->ik", a, b, constants=[0], order="F", strip_exponent=True)
    for one in (expression, pickle.loads(pickle.dumps(expression))):
        mantissa, exponent = one(b)
        assert mantissa.flags.f_contiguous
        assert exponent == 400
        np.testing.assert_allclose(mantissa, 3)
    assert "mantissa" in str(expression.plan)
    assert "normal_exponent" in expression.explain(b)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "object"])
def test_what_has_no_exponent_is_refused(dtype: str) -> None:
    x = np.ones(3, dtype)
    for call in (
        lambda: strip("i,i", x, x),
        lambda: strip("i->i", x),
        lambda: einloom.compile("i,i", x, x, strip_exponent=True),
        lambda: einloom.plan("i->i", x, strip_exponent=True),
    ):
        with pytest.raises(DTypeError, match=f"{dtype}, which has no exponent.*float64"):
            call()
    if dtype != "object":
        assert strip("i,i", x, x, dtype="f8") == (3.0, 0.0)


def test_what_does_not_belong_is_refused() -> None:
    x = np.ones(3)
    for keywords in ({"alpha": 2}, {"beta": 1, "out": np.ones(3)}):
        with pytest.raises(OptionError, match="strip_exponent"):
            strip("i,i->i", x, x, **keywords)
    with pytest.raises(OptionError, match="True or False"):
        einloom.einsum("i,i", x, x, strip_exponent="yes")
    plan = einloom.plan("i,i", x, x)
    with pytest.raises(CallError, match="a Plan already fixes"):
        einloom.compile(plan, strip_exponent=True)
    with pytest.raises(CallError, match="trace"):
        einloom.trace(lambda a: einloom.einsum("i->", a, strip_exponent=True), x)


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional peer, not a dependency")
    a, out = torch.full((2, 2), 1e200, dtype=torch.float64), torch.empty(2, 2, dtype=torch.float64)
    mantissa, exponent = strip("ij,jk->ik", a, a)
    assert isinstance(mantissa, torch.Tensor)
    assert exponent == 400
    assert strip("ij,jk->ik", a, a, out=out)[0] is out
    torch.testing.assert_close(out, mantissa)


# ---- memory ---------------------------------------------------------------------------------------


def measured(expression: Expression, operands: list[np.ndarray]) -> int:
    expression(*operands)
    cpu().reclaim()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        expression(*operands)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_peak_bytes_is_an_upper_bound(dtype: str) -> None:
    """Whole, and in slices below a limit that the whole does not meet."""
    network = grid(8, 8, 3)
    with einloom.options(small=math.inf):
        whole = einloom.plan(network, planner="greedy", dtype=dtype, strip_exponent=True)
        leaner = einloom.plan(network, planner="greedy", dtype=dtype)
        assert whole.peak_bytes >= leaner.peak_bytes > 2 * SLACK
        limit = whole.peak_bytes // 4
        parts = einloom.plan(
            network, planner="greedy", dtype=dtype, memory_limit=limit, strip_exponent=True
        )
        assert parts.n_slices > 1
        r = np.random.default_rng(0)
        operands = [(1e30 * r.standard_normal(x)).astype(dtype) for x in network.shapes]
        results = []
        for plan in (whole, parts):
            expression = einloom.compile(plan)
            assert measured(expression, operands) <= plan.peak_bytes + SLACK
            assert expression.peak_bytes == plan.peak_bytes
            results.append(expression(*operands))
    (m, e), (n, f) = results
    assert e > 1000
    np.testing.assert_allclose(n * 10 ** (f - e), m, rtol=1e-10)
