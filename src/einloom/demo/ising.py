"""The two-dimensional Ising model on a torus: Z as one tensor network, and Z in closed form.

    Z(beta) = sum over s in {-1, +1}^(L*L) of product over bonds <i, j> of exp(beta s_i s_j)

Every site has one bond to the right and one downwards, both periodic, so there are 2 L^2 bonds
(L = 2 counts each pair of neighbours twice, as the transfer matrix and the exact formula do).

The network has one 2x2 matrix W[s, s'] = exp(beta s s') per bond and one label per site, shared
by the four bonds that meet there: a hyperedge. The other usual form, one tensor of rank four per
site and one label per bond, costs ten to forty times more at L = 8 with the same planner, because
there the four bonds of a site join in one step and not one by one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._base.errors import FileFormatError, OptionError

CRITICAL_BETA = math.log1p(math.sqrt(2.0)) / 2.0  # sinh(2 beta) = 1: Onsager, Phys. Rev. 65, 117

MAX_BETA = 350.0  # sinh(2 beta) leaves the float64 range soon after
MAX_LOG_PARTITION = 690.0  # so does Z = e^710


@dataclass(frozen=True, slots=True)
class IsingCase:
    """One partition function to compute: an L x L torus at inverse temperature beta."""

    length: int
    beta: float


def ising_network(
    length: int, beta: float
) -> tuple[list[tuple[int, ...]], tuple[int, ...], dict[int, int], list[np.ndarray]]:
    """The partition function Z(beta) of the L x L torus as inputs, output, sizes and arrays.

    The site in row i and column j has the label i*L + j; the operands are the bonds.

    >>> inputs, output, sizes, arrays = ising_network(3, 0.5)
    >>> len(inputs), output, len(sizes), inputs[:2]
    (18, (), 9, [(0, 1), (0, 3)])
    """
    _check(length, beta)
    weight = np.exp(beta * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    inputs: list[tuple[int, ...]] = []
    for row in range(length):
        for column in range(length):
            site = row * length + column
            inputs.append((site, row * length + (column + 1) % length))
            inputs.append((site, (row + 1) % length * length + column))
    return inputs, (), dict.fromkeys(range(length * length), 2), [weight] * len(inputs)


def kaufman_log_partition(length: int, beta: float) -> float:
    """The exact log Z of the L x L torus: B. Kaufman, Phys. Rev. 76, 1232 (1949).

        Z = 1/2 (2 S)^(L^2/2) (P+ + P- + Q+ + Q-),                    S = sinh 2 beta
        P+- = prod over odd l of (e^(L g_l / 2) +- e^(-L g_l / 2)),   Q+-: the same over even l
        cosh g_l = cosh(2 beta) coth(2 beta) - cos(pi l / L),         l = 0 ... 2L - 1

    where g_l > 0 but for g_0 = 2 beta + log tanh beta, which changes sign at the critical
    temperature, and Q- with it. The right side for cosh g_l equals S + 1/S - cos(pi l / L), hence

        sqrt(2 S) e^(|g_l| / 2) = hypot(S - 1, d) + hypot(S, 1, d) = a_l,   d^2 = 2 S sin^2(pi l/2L)
        Z = 1/2 sum over the four of +- prod over l of a_l^L (1 +- (2 S / a_l^2)^L)

    in which nothing cancels or overflows: log Z is right to a few units in the last place from
    beta = 0 (where it is L^2 log 2) to the largest beta, at any L.
    """
    _check(length, beta)
    s = math.sinh(2.0 * beta)
    logs: list[float] = []
    for parity in (1, 0):
        plus: list[float] = []
        minus: list[float] = []
        for index in range(parity, 2 * length, 2):
            d = math.sqrt(2.0 * s) * math.sin(math.pi * index / (2 * length))
            a = math.hypot(s - 1.0, d) + math.hypot(s, 1.0, d)
            decay = length * (math.log(2.0 * s) - 2.0 * math.log(a)) if s > 0.0 else -math.inf
            plus.append(length * math.log(a) + math.log1p(math.exp(decay)))
            minus.append(length * math.log(a) + _log1m_exp(decay))
        logs += [math.fsum(plus), math.fsum(minus)]
    signs = (1.0, 1.0, 1.0, math.copysign(1.0, s - 1.0))
    top = max(logs)
    total = math.fsum(sign * math.exp(log - top) for sign, log in zip(signs, logs, strict=True))
    return top + math.log(total / 2.0)


def read_ising_cases(path: str | Path) -> tuple[IsingCase, ...]:
    """Every length with every beta of a JSON file ``{"lengths": [...], "betas": [...]}``."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # malformed, not UTF-8, nested too deep
        raise FileFormatError(f"{path}: expected JSON text: {error}") from None
    if not isinstance(data, dict):
        raise FileFormatError(f"{path}: expected an object with 'lengths' and 'betas'")
    for key in ("lengths", "betas"):
        if not isinstance(data.get(key), list) or not data[key]:
            raise FileFormatError(f"{path}: expected a list of numbers under {key!r}")
    try:
        for length in data["lengths"]:
            for beta in data["betas"]:
                _check_representable(length, beta)
    except OptionError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return tuple(IsingCase(n, float(b)) for n in data["lengths"] for b in data["betas"])


def _log1m_exp(x: float) -> float:
    """log(1 - e^x) for x <= 0, and -inf at (or a rounding error above) x = 0."""
    return math.log(-math.expm1(x)) if x < 0.0 else -math.inf


def _check_representable(length: int, beta: float) -> None:
    """Refuses a Z beyond float64; Z >= 2^(L^2) tells without the formula that L > 31 is."""
    _check(length, beta)
    if length > 31 or kaufman_log_partition(length, beta) > MAX_LOG_PARTITION:
        raise OptionError(
            f"Ising torus: Z for length {length}, beta {beta} is beyond float64; lower one of them"
        )


def _check(length: int, beta: float) -> None:
    if type(length) is not int or length < 2:
        raise OptionError(f"Ising torus: expected an integer length of at least 2, got {length!r}")
    if type(beta) not in (int, float) or not 0 <= beta <= MAX_BETA:
        raise OptionError(f"Ising torus: expected 0 <= beta <= {MAX_BETA:g}, got {beta!r}")
