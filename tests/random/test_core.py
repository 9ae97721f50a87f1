"""The core: Random123's known answers, one number on every path, and the mathematics of each number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einloom import options
from einloom.backend.cpu import draws, random_orders
from einloom.backend.cpu.kernels import numbers
from einloom.backend.cpu.threefry import enciphered

KEY = (0x13198A2E, 0x03707344)
KNOWN = (  # key, counter, answer: kat_vectors of Random123, 20 rounds
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
SIZES = (0, 1, 2, 3, 31, 33, 96, 97, 193, 1023, 1024, 1025, 2049, 33_000)
DRAWS = {
    "words": (draws.WORDS, "uint32"),
    **{f"uniform {name}": (draw, name) for name, draw in draws.UNIFORM.items()},
    **{f"normal {name}": (draw, name) for name, draw in draws.NORMAL.items()},
}


def words(key: draws.Key, places: list[int], stream: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return draws.words_at(draws.schedule(key), np.array(places, np.uint64), stream)


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
def test_known_answers(key: draws.Key, counter: draws.Key, answer: draws.Key) -> None:
    place = counter[0] | (counter[1] & 0xFFFFFF) << 32
    a, b = words(key, [place, place], counter[1] >> 24)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [answer] * 2


def test_both_texts_of_the_cipher_agree() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        key = tuple(rng.integers(1 << 32, size=2).tolist())
        places = rng.integers(1 << 56, size=50)
        low, high = (places & 0xFFFFFFFF).astype(np.uint32), (places >> 32).astype(np.uint32)
        for got, wanted in zip(
            words(key, places), enciphered(*np.array(key, np.uint32), low, high), strict=True
        ):
            assert got.dtype == np.uint32
            assert (got == wanted).all()


def filled(fill: Callable[..., None], dtype: str, n: int, small: float, threads: int = 1) -> Any:
    with options(small=small, threads=threads):
        out = np.full(n, 77, dtype)
        fill(out)
    return out


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_and_plain_numbers_are_the_same_bits(name: str) -> None:
    draw, dtype = DRAWS[name]

    def fill(out: np.ndarray) -> None:
        draws.fill(draw, KEY, out)

    longest = filled(fill, dtype, SIZES[-1], np.inf)
    for n in SIZES:
        for threads in (1, 3):
            got = filled(fill, dtype, n, 0, threads)
            assert got.tobytes() == longest[:n].tobytes(), n
        assert filled(fill, dtype, n, np.inf).tobytes() == longest[:n].tobytes(), n


SPANS = (1, 2, 3, 10, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 + 1, 2**64 - 1, 2**64)


@pytest.mark.parametrize("span", SPANS)
def test_integers_are_the_same_on_every_path_and_as_defined(span: int) -> None:
    def fill(out: np.ndarray) -> None:
        draws.fill_integers(KEY, -5, span, out)

    longest = filled(fill, "int64", SIZES[-1], np.inf)
    for n in SIZES:
        for small, threads in ((0, 1), (0, 3), (np.inf, 1)):
            assert filled(fill, "int64", n, small, threads).tolist() == longest[:n].tolist()
    for place in range(40):
        assert (int(longest[place]) + 5) % 2**64 == defined_integer(place, span)


def defined_integer(place: int, span: int) -> int:
    """The law, in Python's integers."""
    for stream in range(255):
        (a,), (b,) = words(KEY, [place], stream)
        product = (int(b) << 32 | int(a)) * span
        if product % 2**64 >= 2**64 % span:
            return product >> 64
    raise AssertionError


def test_products_of_128_bits() -> None:
    rng = np.random.default_rng(1)
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    drawn = rng.integers(2**64, size=(50, 2), dtype=np.uint64).tolist()
    for w, span in [*((w, s) for w in edges for s in edges), *drawn]:
        parts = [np.array([x & 0xFFFFFFFF], np.uint64) for x in (w, w >> 32, span, span >> 32)]
        (high,), (low,) = numbers.scaled(*parts)
        assert int(high) << 64 | int(low) == w * span


@pytest.mark.parametrize("span", [1, 3, 10, 2**32 + 1, 3**40, 2**63 + 1, 2**64 - 1])
def test_as_many_words_lead_to_each_integer(span: int) -> None:
    """Those w with v = (w span) >> 64 and w span mod 2**64 >= least are a range, and its length is the same
    for all v."""
    least = 2**64 % span
    for v in {0, 1, span // 2, span - 1} & set(range(span)) if span < 100 else (0, 7, span - 1):
        first = -(-(v * 2**64 + least) // span)
        stop = -(-((v + 1) * 2**64) // span)
        assert stop - first == 2**64 // span


def test_streams_of_a_place_differ() -> None:
    seen = {tuple(map(int, np.ravel(words(KEY, [5], stream)))) for stream in range(256)}
    assert len(seen) == 256


# ---- numbers ------------------------------------------------------------------------------------


TOP = np.array([0xFFFFFFFF], np.uint32)


def test_uniform_numbers_are_the_upper_bits_and_below_one() -> None:
    assert float(numbers.below_one64(TOP, TOP)[0]) == 1 - 2.0**-53
    assert float(numbers.below_one32(TOP)[0]) == 1 - 2.0**-24
    a, b = words(KEY, range(1000))
    whole = [int(y) << 32 | int(x) for x, y in zip(a, b, strict=True)]
    assert numbers.below_one64(a, b).tolist() == [(w >> 11) / 2**53 for w in whole]
    assert numbers.below_one32(a).tolist() == [(int(w) >> 8) / 2**24 for w in a]


def test_radius_is_that_of_the_logarithm() -> None:
    """Within 2 units in the last place from the smallest u to 1; longdouble has 11 bits more."""
    rng = np.random.default_rng(2)
    u = np.concatenate([2.0 ** -rng.uniform(0, 64, 20000), 1 - 2.0 ** -rng.uniform(1, 53, 20000)])
    u = np.append(u, [2.0**-64, 1.0, 0.5, math.sqrt(0.5), np.nextafter(math.sqrt(0.5), 0)])
    e = numbers.exponent(u.view(np.int64))
    m = (u.view(np.int64) - (e << 52)).view(np.float64)
    assert (m * 2.0**e == u).all()
    assert m.min() >= math.sqrt(0.5)
    assert m.max() < math.sqrt(2) * (1 + 1e-15)
    wanted = np.sqrt(-2 * np.log(u.astype(np.longdouble)))
    error = abs(numbers.radius(m, e.astype(np.float64)) - wanted)
    assert (error <= 2 * np.spacing(wanted.astype(np.float64))).all()


def test_points_on_the_circle() -> None:
    """Within 2 units in the last place of 1 each, and of the number itself for the sine of small angles."""
    rng = np.random.default_rng(3)
    f = np.append(rng.uniform(-0.125, 0.125, 20000), [-0.125, 0.0, 1e-9, -1e-17])
    for quarter in range(4):
        cosine, sine = numbers.on_circle(np.full(f.shape, quarter, np.uint32), f)
        angle = 2 * np.longdouble("3.14159265358979323846264338327950288") * f
        plain = [(np.cos, np.sin), (lambda x: -np.sin(x), np.cos)][quarter % 2]
        sign = 1 if quarter < 2 else -1
        for got, wanted in zip((cosine, sine), plain, strict=True):
            exact = sign * wanted(angle)
            assert (abs(got - exact) <= 2 * np.spacing(abs(exact).astype(np.float64))).all()


def test_normal_numbers_reach_what_is_said() -> None:
    none, all_ = np.zeros(1, np.uint32), TOP
    for chance, most in (
        (numbers.chance64(none, none), 9.42),
        (numbers.chance32(none), 6.66),
    ):
        assert math.sqrt(-2 * math.log(chance[0])) == pytest.approx(most, abs=0.01)
    assert numbers.chance64(all_, all_)[0] == 1
    assert numbers.chance32(all_)[0] == 1
    for word, turns in ((0, 0.0), (1 << 30, 0.25), (3 << 30, 0.75), ((1 << 32) - 1, -(2.0**-32))):
        given = numbers.turned(np.array([word], np.uint32))
        found = (given >> np.uint32(30)) / 4 + numbers.rest_of(given)
        assert found[0] % 1 == turns % 1


# ---- orders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 17, 1000, 32_768, 70_000, 131_072])
def test_an_order_sorts_the_words(n: int) -> None:
    a, b = words(KEY, range(n))
    whole = (b.astype(np.uint64) << np.uint64(32)) | a
    wanted = np.argsort(whole, kind="stable").tolist()
    for small, threads in ((np.inf, 1), (0, 1), (0, 3)):
        with options(small=small, threads=threads):
            assert random_orders.order(KEY, n).tolist() == wanted


@pytest.mark.parametrize("bucket", [50, random_orders.BUCKET])
def test_equal_words_keep_their_order(bucket: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    monkeypatch.setattr(random_orders, "BUCKET", bucket)
    low_bits = [
        rng.integers(4, size=2000),
        rng.integers(3, size=2000),
    ]  # few words, many equal ones
    few = np.stack(low_bits, -1).astype(np.uint32).reshape(-1)

    def fill(draw: Any, key: Any, out: np.ndarray) -> None:
        out[:] = few

    monkeypatch.setattr(random_orders, "fill", fill)
    whole = (few[1::2].astype(np.uint64) << np.uint64(32)) | few[::2]
    for small in (0, np.inf):
        with options(small=small):
            assert (
                random_orders.order(KEY, 2000).tolist() == np.argsort(whole, kind="stable").tolist()
            )
