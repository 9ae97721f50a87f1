"""One factorisation in a parent context, many solves in its children: `python examples/factor_and_solve.py`.

The LU factors of a batch of matrices stay on the device. Each child context has a right-hand side and a
solution of its own beside them, is closed when its solution is read, and takes nothing of the factors with
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import einloom
from einloom import Code, Context, Node

linalg: Any = einloom.linalg


def residuals(solves: int = 5, device: str = "cpu:0") -> list[float]:
    """|A x - b| / |b| of each solve."""
    rng = np.random.default_rng(8)
    matrices = rng.standard_normal((20, 30, 30)) + 10 * np.eye(30)
    a, lu = Node("a", (20, 30, 30)), Node("lu", (20, 30, 30))
    pivots = Node("pivots", (20, 30), "int32")
    b, x = Node("b", (20, 30, 4)), Node("x", (20, 30, 4))
    factor = Code(lambda a: tuple(linalg.lu_factor(a)), [a], [lu, pivots], name="factor")
    solve = Code(
        lambda lu, pivots, b: linalg.lu_solve((lu, pivots), b), [lu, pivots, b], [x], name="solve"
    )
    found = []
    with Context(device) as root:
        parent = root.put({a: matrices}).link(factor)
        parent.run()
        for _ in range(solves):
            right = rng.standard_normal((20, 30, 4))
            with parent.context.put({b: right}) as child:
                routine = child.link(solve)
                routine.run()
                solution = routine.context.get(x)
            left = matrices @ solution - right
            found.append(float(np.linalg.norm(left) / np.linalg.norm(right)))
    return found


if __name__ == "__main__":
    for number, value in enumerate(residuals()):
        print(f"solve {number}: residual {value:.1e}")
