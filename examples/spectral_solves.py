"""Two solves by Fourier transforms, with their residuals: `python examples/spectral_solves.py`.

A Poisson problem in a rectangle, -u_xx - u_yy = f with u = 0 on the boundary, by sine transforms (the
five-point matrix is diagonal in sines); the same with no flux through it, by cosine transforms; and a
system with a circulant matrix, by plain ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import einloom

fft: Any = einloom.fft


def laplacian(u: Any, steps: tuple[float, float]) -> Any:
    """-u_xx - u_yy by five points, of u inside a frame of values that are known."""
    inner = u[1:-1, 1:-1]
    along_x = (2 * inner - u[2:, 1:-1] - u[:-2, 1:-1]) / steps[0] ** 2
    along_y = (2 * inner - u[1:-1, 2:] - u[1:-1, :-2]) / steps[1] ** 2
    return along_x + along_y


def poisson_dirichlet(f: Any, steps: tuple[float, float]) -> Any:
    """u inside the rectangle, 0 on its boundary: type 1 sines are the eigenvectors,

    (2 - 2 cos(pi k / (n + 1))) / h^2 for k = 1 ... n the eigenvalues along each axis.
    """
    parts = [
        (2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))) / h**2
        for n, h in zip(f.shape, steps, strict=True)
    ]
    return fft.idstn(fft.dstn(f, 1) / np.add.outer(*parts), 1, overwrite_x=True)


def poisson_neumann(f: Any, steps: tuple[float, float]) -> Any:
    """u at the middles of cells with no flux through the boundary, of mean 0; f must have mean 0.

    Type 2 cosines are the eigenvectors, (2 - 2 cos(pi k / n)) / h^2 for k = 0 ... n - 1 the eigenvalues.
    """
    parts = [
        (2 - 2 * np.cos(np.pi * np.arange(n) / n)) / h**2
        for n, h in zip(f.shape, steps, strict=True)
    ]
    eigenvalues = np.add.outer(*parts)
    eigenvalues[0, 0] = np.inf
    return fft.idctn(fft.dctn(f, 2) / eigenvalues, 2, overwrite_x=True)


def residual(got: Any, want: Any) -> float:
    """|got - want| / |want|."""
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def residuals() -> dict[str, float]:
    """What is left of each system, relative to its right-hand side."""
    rng = np.random.default_rng(8)
    steps = (1 / 300, 1 / 200)
    f = rng.standard_normal((299, 199))
    u = np.pad(poisson_dirichlet(f, steps), 1)
    g = rng.standard_normal((300, 200))
    g -= g.mean()
    v = np.pad(poisson_neumann(g, steps), 1, mode="edge")
    c, b = rng.standard_normal(1000), rng.standard_normal((5, 1000))
    c[0] += 100
    x = fft.circulant_solve(c, b)
    rows = c[(np.arange(1000)[:, None] - np.arange(1000)) % 1000]
    return {
        "Poisson, u = 0 on the boundary": residual(laplacian(u, steps), f),
        "Poisson, no flux through it": residual(laplacian(v, steps), g),
        "circulant, 5 right-hand sides": residual(x @ rows.T, b),
    }


if __name__ == "__main__":
    for name, value in residuals().items():
        print(f"{name}: residual {value:.1e}")
