"""StableHLO's names for ops of the catalogue: a vocabulary, and no form of programs here.

Ops that are not listed are written in several of its ops, or have no counterpart there. Source: https://github.com/openxla/stablehlo/blob/main/docs/spec.md
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_SAME = (
    "add", "subtract", "multiply", "divide", "remainder", "power", "maximum", "minimum",
    "atan2", "select", "negate", "real", "imag", "sign", "sqrt", "rsqrt", "tan", "tanh",
    "floor", "ceil", "reshape", "transpose", "broadcast_in_dim", "slice", "reverse", "pad",
    "concatenate", "convert", "sort", "gather", "scatter", "dynamic_slice",
    "dynamic_update_slice", "dot_general", "constant", "cholesky", "triangular_solve", "fft",
)  # fmt: skip
_OTHER = {
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_not": "not",
    **dict.fromkeys(
        ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"], "compare"
    ),
    "absolute": "abs",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sin": "sine",
    "cos": "cosine",
    "round": "round_nearest_even",
    "round_half_away": "round_nearest_afz",
    **dict.fromkeys(("squeeze", "expand_dims"), "reshape"),
    **dict.fromkeys(("split", "slice_at"), "slice"),
    "cast": "convert",
    **{f"reduce_{kind}": "reduce" for kind in ("sum", "prod", "max", "min", "mean")},
    **dict.fromkeys(("argmax", "argmin"), "reduce"),
    "argsort": "sort",
    **dict.fromkeys(("take", "take_along_axis", "gather_dynamic_slice_sizes"), "gather"),
    "scatter_along_axis": "scatter",
    **dict.fromkeys(("dot_general_add", "matmul"), "dot_general"),
    **dict.fromkeys(("ifft", "rfft", "irfft"), "fft"),
    "pad_to_match": "pad",
    "shape_of": "constant",
    "conj": "complex",
    "extract_diagonal": "gather",
}

STABLEHLO: Mapping[str, str] = MappingProxyType({op: op for op in _SAME} | _OTHER)
"""The op of StableHLO that answers an op of the catalogue, by itself or as the main part of a few."""
