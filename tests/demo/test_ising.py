"""Kaufman's formula against sums over states and transfer matrices; the network against it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from einloom._base.errors import FileFormatError, OptionError
from einloom.demo.ising import (
    CRITICAL_BETA,
    IsingCase,
    ising_network,
    kaufman_log_partition,
    read_ising_cases,
)

BETAS = [
    0.0,
    1e-9,
    0.05,
    0.3,
    CRITICAL_BETA - 1e-6,
    CRITICAL_BETA,
    CRITICAL_BETA + 1e-6,
    0.6,
    2,
    20,
]


def log_sum_of_states(length: int, beta: float) -> float:
    """log of the sum of exp(-beta E) over all 2^(L*L) states."""
    states = np.arange(2 ** (length * length))[:, None] >> np.arange(length * length)
    spins = (1 - 2 * (states & 1)).reshape(-1, length, length)
    bonds = spins * np.roll(spins, 1, axis=1) + spins * np.roll(spins, 1, axis=2)
    exponents = beta * bonds.sum(axis=(1, 2))
    return exponents.max() + math.log(math.fsum(np.exp(exponents - exponents.max())))


def log_trace_of_transfer_matrix(length: int, beta: float) -> float:
    """log tr T^L, where T joins a row of L spins to the next one."""
    spins = 1 - 2 * ((np.arange(2**length)[:, None] >> np.arange(length)) & 1)
    within = np.exp(beta / 2 * (spins * np.roll(spins, 1, axis=1)).sum(axis=1))
    transfer = within[:, None] * np.exp(beta * (spins @ spins.T)) * within
    power = np.linalg.matrix_power(transfer / transfer.max(), length)
    return length * math.log(transfer.max()) + math.log(np.trace(power))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("length", [2, 3, 4])
def test_kaufman_is_the_sum_over_all_states(length: int, beta: float) -> None:
    right = log_sum_of_states(length, beta)
    assert kaufman_log_partition(length, beta) == pytest.approx(right, rel=1e-14)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("length", [5, 6, 8])
def test_kaufman_is_the_trace_of_the_transfer_matrix(length: int, beta: float) -> None:
    right = log_trace_of_transfer_matrix(length, beta)
    assert kaufman_log_partition(length, beta) == pytest.approx(right, rel=1e-13)


@pytest.mark.parametrize("length", [3, 64, 1001])
def test_kaufman_at_the_ends_of_its_range(length: int) -> None:
    n = length**2
    assert kaufman_log_partition(length, 0) == pytest.approx(n * math.log(2), rel=1e-14)
    assert kaufman_log_partition(length, 1e-300) == pytest.approx(n * math.log(2), rel=1e-14)
    cold = 2 * 350 * n + math.log(2)
    assert kaufman_log_partition(length, 350) == pytest.approx(cold, rel=1e-14)


def test_kaufman_at_the_critical_point_of_a_large_torus() -> None:
    # A. Ferdinand and M. Fisher, Phys. Rev. 185, 832 (1969): log Z = N f + log(2^(1/4) + 2^(-1/2))
    catalan = 0.915965594177219015
    bulk = 512**2 * (math.log(2) / 2 + 2 * catalan / math.pi)
    correction = kaufman_log_partition(512, CRITICAL_BETA) - bulk
    assert correction == pytest.approx(math.log(2**0.25 + 2**-0.5), abs=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.3, CRITICAL_BETA, 0.6])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_network_is_z(length: int, beta: float) -> None:
    inputs, output, sizes, arrays = ising_network(length, beta)
    operands = [x for pair in zip(arrays, inputs, strict=True) for x in pair]
    z = np.einsum(*operands, output, optimize="greedy")
    assert math.log(z) == pytest.approx(kaufman_log_partition(length, beta), rel=1e-13)
    assert len(inputs) == len(arrays) == 2 * length**2
    assert sizes == dict.fromkeys(range(length**2), 2)


@pytest.mark.parametrize("length", [1, 0, -3, 2.0, True, "4", None])
@pytest.mark.parametrize("function", [ising_network, kaufman_log_partition])
def test_lengths_without_a_torus(function, length) -> None:
    with pytest.raises(OptionError, match="integer length of at least 2"):
        function(length, 0.4)


@pytest.mark.parametrize("beta", [-0.1, math.nan, math.inf, 351.0, "0.4", None, True])
@pytest.mark.parametrize("function", [ising_network, kaufman_log_partition])
def test_temperatures_without_meaning(function, beta) -> None:
    with pytest.raises(OptionError, match="0 <= beta <= 350"):
        function(4, beta)


def test_cases_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ising.json"
    path.write_text(json.dumps({"source": "a test", "lengths": [2, 3], "betas": [0, 0.5]}))
    expected = (IsingCase(2, 0.0), IsingCase(2, 0.5), IsingCase(3, 0.0), IsingCase(3, 0.5))
    assert read_ising_cases(path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON text"),
        ("[1, 2]", "expected an object"),
        ('{"betas": [0.3]}', "under 'lengths'"),
        ('{"lengths": 4, "betas": [0.3]}', "under 'lengths'"),
        ('{"lengths": [4], "betas": []}', "under 'betas'"),
        ('{"lengths": [1], "betas": [0.3]}', "at least 2, got 1"),
        ('{"lengths": [4.5], "betas": [0.3]}', "at least 2, got 4.5"),
        ('{"lengths": [4], "betas": ["hot"]}', "got 'hot'"),
        ('{"lengths": [4], "betas": [NaN]}', "got nan"),
        ('{"lengths": [8], "betas": [6]}', "beyond float64"),
        ('{"lengths": [1000000000], "betas": [0.1]}', "beyond float64"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message) as error:
        read_ising_cases(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="expected JSON text"):
        read_ising_cases(path)
