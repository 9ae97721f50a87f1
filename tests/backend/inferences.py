"""Legal calls of ops that have no kernel everywhere, and the dtypes and shapes that they infer."""

from __future__ import annotations

from typing import Any

from tests.backend.bad_calls import index, solving, spec

from einloom.backend.spec import ArraySpec

Inference = tuple[str, dict[str, Any], tuple[ArraySpec, ...], str]

INFERENCES: list[Inference] = [
    ("cholesky", {}, (spec(4, 2, 2),), "float64[4,2,2]"),
    ("triangular_solve", solving(), (spec(2, 2), spec(2, 3)), "float64[2,3]"),
    ("lu", {}, (spec(4, 3, 2),), "float64[4,3,2] int64[4,2]"),
    ("lu_solve", {"trans": "T"}, (spec(2, 2), index(2), spec(2, 3)), "float64[2,3]"),
    ("full_piv_lu", {}, (spec(2, 2),), "float64[2,2] int64[2] int64[2]"),
    (
        "full_piv_lu_solve",
        {"trans": "N"},
        (spec(2, 2), index(2), index(2), spec(2, 3)),
        "float64[2,3]",
    ),
    ("solve", {}, (spec(4, 2, 2), spec(4, 2, 3)), "float64[4,2,3]"),
    ("qr", {}, (spec(3, 2),), "float64[3,2] float64[2,2]"),
    ("svd", {}, (spec(3, 2, dtype="c8"),), "complex64[3,2] float32[2] complex64[2,2]"),
    ("eigh", {}, (spec(2, 2, dtype="c8"),), "float32[2] complex64[2,2]"),
    ("eig", {}, (spec(2, 2, dtype="f4"),), "complex64[2] complex64[2,2]"),
    ("fft", {"axes": (0,)}, (spec(4),), "complex128[4]"),
    ("ifft", {"axes": (1, 0)}, (spec(2, 4, dtype="f2"),), "complex64[2,4]"),
    ("rfft", {"axes": (0, 1)}, (spec(4, 5),), "complex128[4,3]"),
    ("irfft", {"axes": (0,), "n": 5}, (spec(3, dtype="c8"),), "float32[5]"),
]
