"""The installed package, away from its checkout: import, contract, compile a kernel, plan, JSON."""

from pathlib import Path

import numpy as np

import einloom

assert "site-packages" in str(Path(einloom.__file__).resolve()), einloom.__file__
rng = np.random.default_rng(0)
a, b, c = rng.random((8, 9)), rng.random((9, 7)), rng.random((7, 5))
assert np.allclose(einloom.einsum("ij,jk,kl->il", a, b, c), a @ b @ c)
x, y = rng.random((20000, 3, 3)), rng.random((20000, 3, 3))
assert np.allclose(einloom.einsum("bij,bjk->bik", x, y), x @ y)  # the compiled loop nest
plan = einloom.plan("ij,jk,kl->il", a, b, c)
assert einloom.Plan.from_json(plan.to_json()) == plan
print(plan)
print("einloom", einloom.__version__, "works from", Path(einloom.__file__).parent)
