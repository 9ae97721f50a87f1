"""Exact integers, bytes and seconds, read and printed in one way everywhere."""

from __future__ import annotations

import math
import re

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {f"{unit}B": size for unit, size in _UNITS.items() if unit not in ("", "B")}
_UNITS |= {f"{unit}iB": 1 << (10 * (k + 1)) for k, unit in enumerate("KMGTP")}
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def format_count(value: int, digits: int = 3) -> str:
    """An exact integer for people: as it is below 10^5, else in scientific form of any exponent.

    >>> format_count(4096), format_count(123456789), format_count(10**400)
    ('4096', '1.235e+8', '1.000e+400')
    """
    if abs(value) < 100_000:
        return str(value)
    sign, value = ("-", -value) if value < 0 else ("", value)
    exponent = _floor_log10(value)
    digits = min(digits, exponent)
    scaled = _rounded_quotient(value, 10 ** (exponent - digits))
    if scaled >= 10 ** (digits + 1):
        scaled, exponent = scaled // 10, exponent + 1
    mantissa = str(scaled)
    return f"{sign}{mantissa[0]}.{mantissa[1:]}e+{exponent}"


def log10(value: int) -> float:
    """log10 of an exact integer of any size; -inf for 0."""
    return math.log10(value) if value > 0 else -math.inf


def format_bytes(value: int) -> str:
    """Bytes in binary units.

    >>> format_bytes(512), format_bytes(3 << 20), format_bytes(10**40)
    ('512 B', '3.00 MiB', '8.882e+24 PiB')
    """
    if value < 1024:
        return f"{value} B"
    unit = min((value.bit_length() - 1) // 10, 5)
    scaled = value / (1 << (10 * unit)) if value < 1 << 80 else value // (1 << (10 * unit))
    name = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[unit]
    return f"{scaled:.2f} {name}" if scaled < 100_000 else f"{format_count(int(scaled))} {name}"


def format_seconds(value: float) -> str:
    """Seconds with a unit that keeps three figures.

    >>> format_seconds(0.0000123), format_seconds(0.5), format_seconds(73.25)
    ('12.3 µs', '500 ms', '73.2 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.9995 * scale:  # what rounds to 1000 of the next unit is 1 of this one
            scaled = value / scale
            return f"{scaled:.0f} {unit}" if scaled >= 999.5 else f"{scaled:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def parse_bytes(text: str) -> int | None:
    """Bytes of a string such as "4GiB", "500 MB" or "1e9"; None when it is no size.

    >>> parse_bytes("4GiB"), parse_bytes("1.5 kB"), parse_bytes("12 parsecs")
    (4294967296, 1500, None)
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        try:
            plain = float(text)
            return int(plain) if math.isfinite(plain) else None
        except ValueError:
            return None
    unit = match[2][:1].upper() + match[2][1:]
    whole, _, decimals = match[1].partition(".")
    if unit not in _UNITS or len(match[1]) > 4000:  # Python reads no longer integers
        return None
    return int(whole + decimals) * _UNITS[unit] // 10 ** len(decimals)


def _floor_log10(value: int) -> int:
    guess = int(math.log10(value))
    while 10**guess > value:
        guess -= 1
    while 10 ** (guess + 1) <= value:
        guess += 1
    return guess


def _rounded_quotient(value: int, divisor: int) -> int:
    return (2 * value + divisor) // (2 * divisor)
