"""Ground state of the spin-1/2 Heisenberg chain by DMRG, beside the exact energy of the Bethe ansatz.

H = sum of S_i · S_(i+1) over the bonds of an open chain. The state is a product of one tensor
[left, spin, right] for each site; two neighbours at a time are optimised by a few steps of Lanczos in the
space that the others span, and split again by a truncated SVD: S. White, Phys. Rev. Lett. 69, 2863 (1992);
U. Schollwöck, Ann. Phys. 326, 96 (2011).

    python examples/heisenberg.py --sites 32 --max-rank 48
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from einloom import einsum
from einloom.linalg import eigh, solve, truncated_svd

Array = np.ndarray[Any, Any]


class Sweep(NamedTuple):
    """Energy after a sweep to the right and back, the largest rank, the largest discarded weight."""

    energy: float
    rank: int
    discarded: float


def ground_state(sites: int, max_rank: int, sweeps: int, cutoff: float = 1e-12) -> list[Sweep]:
    """Sweeps of DMRG from the Néel state."""
    hamiltonian = operators(sites)
    state = [np.eye(2)[site % 2].reshape(1, 2, 1) for site in range(sites)]
    right = [np.ones((1, 1, 1))]
    for site in range(sites - 1, 1, -1):
        right.append(grow_right(right[-1], state[site], hamiltonian[site]))
    left = [np.ones((1, 1, 1))]
    done = []
    for _ in range(sweeps):
        lost, rank, energy = 0.0, 0, 0.0
        for site, forward in [
            *((site, True) for site in range(sites - 2)),
            *((site, False) for site in range(sites - 2, -1, -1)),
        ]:
            pair = hamiltonian[site], hamiltonian[site + 1]
            block = einsum("lsm,mtr->lstr", state[site], state[site + 1])
            energy, block = lowest(effective(left[-1], *pair, right[-1]), block)
            rows, columns = block.shape[:2], block.shape[2:]
            cut = truncated_svd(
                block.reshape(rows[0] * rows[1], -1), max_rank, cutoff, "relative_weight",
                absorb="right" if forward else "left", renormalize=True,
            )  # fmt: skip
            state[site] = cut.U.reshape(*rows, -1)
            state[site + 1] = cut.Vh.reshape(-1, *columns)
            lost, rank = max(lost, float(cut.discarded)), max(rank, int(cut.ranks))
            if forward:
                left.append(grow_left(left[-1], state[site], pair[0]))
                right.pop()
            elif site:
                right.append(grow_right(right[-1], state[site + 1], pair[1]))
                left.pop()
        done.append(Sweep(energy, rank, lost))
    return done


def operators(sites: int) -> list[Array]:
    """H as a product of tensors [left, right, spin out, spin in] of rank 5."""
    up, z, one = np.eye(2, k=1), np.diag([0.5, -0.5]), np.eye(2)
    bulk = np.zeros((5, 5, 2, 2))
    bulk[0, 0] = bulk[4, 4] = one
    for at, (first, second) in enumerate(((up / 2, up.T), (up.T / 2, up), (z, z)), 1):
        bulk[0, at], bulk[at, 4] = first, second
    return [bulk[:1], *[bulk] * (sites - 2), bulk[:, 4:]]


def effective(left: Array, first: Array, second: Array, right: Array) -> Callable[[Array], Array]:
    """H in the space of two neighbouring sites: a function of their tensor."""

    def apply(block: Array) -> Array:
        return einsum("awb,wxsp,xytq,cyd,bpqd->astc", left, first, second, right, block)

    return apply


def grow_left(left: Array, tensor: Array, operator: Array) -> Array:
    return einsum("awb,asc,wxsp,bpd->cxd", left, tensor, operator, tensor)


def grow_right(right: Array, tensor: Array, operator: Array) -> Array:
    return einsum("cxd,asc,wxsp,bpd->awb", right, tensor, operator, tensor)


def lowest(apply: Callable[[Array], Array], start: Array, steps: int = 4) -> tuple[float, Array]:
    """The lowest eigenvalue of a symmetric map in a Krylov space, and its vector."""
    basis = [start / np.linalg.norm(start)]
    images: list[Array] = []
    for _ in range(steps):
        images.append(apply(basis[-1]))
        rest = images[-1]
        for _ in range(2):  # once does not leave them orthogonal
            for x in basis:
                rest = rest - np.vdot(x, rest) * x
        size = np.linalg.norm(rest)
        if size < 1e-12:
            break
        basis.append(rest / size)
    basis = basis[: len(images)]
    matrix = np.array([[np.vdot(x, image) for image in images] for x in basis])
    values, vectors = eigh(matrix)
    found = sum(factor * x for factor, x in zip(vectors[:, 0], basis, strict=True))
    return float(values[0]), np.asarray(found)


def bethe_energy(sites: int) -> float:
    """The exact energy of an open chain with an even number of sites.

    With free ends the roots x_1 < x_2 < ... of the ground state are real and positive and solve
    4 n atan(2 x_j) = 2 π j + sum over k != j of 2 atan(x_j - x_k) + 2 atan(x_j + x_k), and
    E = (n - 1) / 4 - sum of 1 / (2 x_j² + 1/2): F. Alcaraz, M. Barber, M. Batchelor, R. Baxter,
    G. Quispel, J. Phys. A 20, 6397 (1987). By Newton's method.
    """
    count = np.arange(1, sites // 2 + 1)
    x = np.tan(np.pi * count / (2 * sites + 1)) / 2  # without interaction, nearly
    for _ in range(50):
        minus, plus = x[:, None] - x, x[:, None] + x
        np.fill_diagonal(plus, 0)
        rest = 4 * sites * np.arctan(2 * x) - 2 * np.pi * count
        rest -= 2 * (np.arctan(minus) + np.arctan(plus)).sum(axis=1)
        down, up = 2 / (1 + minus**2), 2 / (1 + plus**2)
        for each in (down, up):
            np.fill_diagonal(each, 0)
        jacobian = down - up
        jacobian[np.diag_indices_from(jacobian)] = 8 * sites / (1 + 4 * x**2) - (down + up).sum(1)
        step = solve(jacobian, rest)
        x = np.abs(x - step)
        if abs(step).max() < 1e-14 * x.max():
            break
    return float((sites - 1) / 4 - (1 / (2 * x**2 + 0.5)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=32, help="an even number")
    parser.add_argument("--max-rank", type=int, default=48)
    parser.add_argument("--sweeps", type=int, default=5)
    given = parser.parse_args()
    exact = bethe_energy(given.sites)
    print(f"{given.sites} sites, Bethe ansatz: E = {exact:.12f}, {exact / given.sites:.6f} a site")
    for number, sweep in enumerate(ground_state(given.sites, given.max_rank, given.sweeps), 1):
        print(
            f"sweep {number}: E = {sweep.energy:.12f}  above {sweep.energy - exact:.1e}  "
            f"rank {sweep.rank}  discarded {sweep.discarded:.1e}"
        )


if __name__ == "__main__":
    main()
