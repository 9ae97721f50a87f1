"""Numbers are printed and read exactly, however large they are."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from einloom._base.numbers import format_bytes, format_count, format_seconds, log10, parse_bytes

HUGE = st.one_of(
    st.integers(0, 10**6),
    st.integers(0, 10**40),
    st.integers(0, 10**401),
    st.builds(lambda e, d: max(0, 10**e + d), st.integers(0, 400), st.integers(-2, 2)),
)
UNITS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "µs": Fraction(1, 10**6)}
UNITS["ns"] = Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-7, "-7"),
        (99_999, "99999"),
        (100_000, "1.000e+5"),
        (-123_456_789, "-1.235e+8"),
        (10**400, "1.000e+400"),
        (10**400 - 1, "1.000e+400"),
        (10**5000, "1.000e+5000"),
    ],
    ids=range(8),
)
def test_format_count(value: int, text: str) -> None:
    assert format_count(value) == text


@given(HUGE, st.integers(1, 8))
@example(999_950, 3)
@example(10**400 - 1, 8)
def test_count_is_rounded_to_the_last_digit_shown(value: int, digits: int) -> None:
    text = format_count(value, digits)
    assert format_count(-value, digits) == (f"-{text}" if value else "0")
    if value < 100_000:
        assert int(text) == value
        return
    mantissa, _, exponent = text.partition("e+")
    shown = min(digits, int(exponent))
    assert len(mantissa) == 2 + shown
    assert 1 <= Fraction(mantissa) < 10
    unit = 10 ** (int(exponent) - shown)
    assert abs(Fraction(mantissa) * 10 ** int(exponent) - value) <= Fraction(unit, 2)


@given(st.integers(1, 10**401))
@example(10**400)
def test_log10(value: int) -> None:
    assert 10 ** math.floor(log10(value) - 1e-9) <= value <= 10 ** math.ceil(log10(value) + 1e-9)


def test_log10_of_nothing() -> None:
    assert log10(0) == -math.inf
    assert log10(10**400) == 400


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (3 << 30, "3.00 GiB")],
)
def test_format_bytes(value: int, text: str) -> None:
    assert format_bytes(value) == text


@given(st.integers(0, 99_999 << 50))
def test_bytes_survive_printing(value: int) -> None:
    """To the two decimals shown."""
    back = parse_bytes(format_bytes(value))
    assert back is not None
    assert abs(back - value) <= 1 + value // 100


@given(HUGE)
def test_any_number_of_bytes_is_printed_short(value: int) -> None:
    text = format_bytes(value)
    assert len(text) <= 16
    assert text.split()[1] in ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1e9", 10**9),
        ("1.5e3", 1500),
        ("4GiB", 4 << 30),
        ("4 gib", None),  # the unit's letters after the first are as written
        ("4giB", 4 << 30),
        ("500 MB", 500 * 10**6),
        ("500M", 500 * 10**6),
        ("1.5 kB", 1500),
        ("1.001 kB", 1001),  # exactly, not through a float
        (".5GiB", 1 << 29),
        ("5.B", 5),
        (" 7 B ", 7),
        ("2TiB", 2 << 40),
        ("3 PB", 3 * 10**15),
        ("9007199254740993", 2**53 + 1),
        ("1" + "0" * 400, 10**400),
        ("", None),
        ("GiB", None),
        ("12 parsecs", None),
        ("1 KiBB", None),
        ("inf", None),
        ("nan", None),
        ("1e999", None),
        ("1" * 5000, None),
        ("-5 MB", None),
        ("1.2.3 MB", None),
    ],
    ids=lambda value: ascii(value)[:20] if isinstance(value, str) else "",
)
def test_parse_bytes(text: str, value: int | None) -> None:
    assert parse_bytes(text) == value


@given(st.integers(0, 10**400))
def test_integers_are_read_exactly(value: int) -> None:
    assert parse_bytes(str(value)) == value
    assert parse_bytes(f"{value} KiB") == value * 1024


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (1.5e-9, "1.5 ns"),
        (0.0000123, "12.3 µs"),
        (0.5, "500 ms"),
        (0.9996, "1 s"),
        (73.25, "73.2 s"),
        (1234.5, "1234 s"),
    ],
)
def test_format_seconds(value: float, text: str) -> None:
    assert format_seconds(value) == text


@given(st.floats(1e-8, 1e6))
def test_seconds_keep_three_figures(value: float) -> None:
    number, unit = format_seconds(value).split()
    assert "e" not in number
    assert abs(Fraction(number) * UNITS[unit] - Fraction(value)) <= Fraction(value) / 199
