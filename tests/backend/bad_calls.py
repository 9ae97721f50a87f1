"""Calls that no op of the catalogue takes: what is wrong, and what the message says of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from einloom.backend.catalogue import CATALOGUE
from einloom.backend.spec import ArraySpec

F8 = np.dtype("float64")
I8 = np.dtype("int64")


def spec(*shape: int, dtype: Any = F8) -> ArraySpec:
    return ArraySpec(np.dtype(dtype), shape)


def index(*shape: int) -> ArraySpec:
    return spec(*shape, dtype=I8)


ELEMENTWISE = [row for row in CATALOGUE.values() if row.group == "elementwise"]
BINARY = [row.name for row in ELEMENTWISE if row.operands in (("x", "y"), ("y", "x"))]
UNARY = [row.name for row in ELEMENTWISE if row.operands == ("x",)]
INNER = {"batch": ((), ()), "contracting": ((0,), (0,))}


def window(**changes: Any) -> dict[str, Any]:
    """Attributes of unfold, some of them wrong."""
    return {"kernel": (2,), "strides": (1,), "dilation": (1,), "low": (0,), "high": (0,)} | changes


def gathering(**changes: Any) -> dict[str, Any]:
    """Attributes that take rows out of a matrix by indices [n, 1], some of them wrong."""
    return {
        "offset_dims": (1,),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 1,
        "slice_sizes": (1, 3),
    } | changes


def scattering(**changes: Any) -> dict[str, Any]:
    """Attributes that add rows to a matrix at indices [n, 1], some of them wrong."""
    return {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    } | changes


def padding(**changes: Any) -> dict[str, Any]:
    return {"low": (0,), "high": (0,), "interior": (0,), "value": 0} | changes


def along(**changes: Any) -> dict[str, Any]:
    return {"axis": 0, "mode": "set", "unique_indices": False} | changes


def solving(**changes: Any) -> dict[str, Any]:
    return {"lower": True, "trans": "N", "unit_diagonal": False, "side": "left"} | changes


Bad = tuple[str, Any, tuple[ArraySpec, ...], str]

BAD: list[Bad] = [
    ("transpose", {"perm": (0, 0)}, (spec(2, 3),), "names an axis twice"),
    ("transpose", {"perm": (0,)}, (spec(2, 3),), "leaves out axes"),
    ("transpose", {"perm": (0, 2)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": (0, -1)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": (0, True)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": "10"}, (spec(2, 3),), "must be a tuple"),
    ("transpose", {"perm": 1}, (spec(2, 3),), "must be a tuple"),
    ("transpose", {"perm": None}, (spec(),), "must be a tuple"),
    ("transpose", {"perm": {0, 1}}, (spec(2, 3),), "must be a tuple"),
    ("transpose", {"perm": range(2)}, (spec(2, 3),), "must be a tuple"),
    ("transpose", {"perm": {0: 1, 1: 0}}, (spec(2, 3),), "must be a tuple"),
    ("transpose", {0: (1, 0)}, (spec(2, 3),), "takes attributes"),
    ("transpose", None, (spec(2, 3),), "takes its attributes as a dict"),
    ("transpose", {}, (spec(2, 3),), "takes attributes"),
    ("transpose", {"perm": (0,), "axes": ()}, (spec(2),), "takes attributes"),
    ("transpose", {"perm": (0,)}, (spec(2), spec(2)), "takes operands"),
    ("slice_at", {"axis": 1, "at": 0}, (spec(2),), "out of range"),
    ("slice_at", {"axis": 0, "at": 2}, (spec(2),), "no position"),
    ("slice_at", {"axis": 0, "at": -1}, (spec(2),), "no position"),
    ("slice_at", {"axis": 0, "at": 1.0}, (spec(2),), "no position"),
    ("slice_at", {"axis": 0, "at": 0}, (spec(0),), "no position"),
    ("squeeze", {"axes": (0,)}, (spec(2, 1),), "not all of size 1"),
    ("squeeze", {"axes": (1, 1)}, (spec(2, 1),), "names an axis twice"),
    ("squeeze", {"axes": (2,)}, (spec(2, 1),), "out of range"),
    ("squeeze", {"axes": (0,)}, (spec(0),), "not all of size 1"),
    ("expand_dims", {"axes": (3,)}, (spec(2, 1),), "out of range"),
    ("expand_dims", {"axes": (0, 0)}, (spec(2, 1),), "names an axis twice"),
    ("expand_dims", {"axes": 0}, (spec(2),), "malformed"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (0,)}, (spec(3),), "does not fit"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (1, 0)}, (spec(3, 2),), "must increase"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": ()}, (spec(3),), "one for each"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (2,)}, (spec(3),), "out of range"),
    ("broadcast_in_dim", {"shape": (-1,), "axes": ()}, (spec(),), "must be >= 0"),
    ("broadcast_in_dim", {"shape": (2.0,), "axes": ()}, (spec(),), "must be 1 integers"),
    ("broadcast_in_dim", {"shape": 2, "axes": ()}, (spec(),), "malformed"),
    ("extract_diagonal", {"axes": (0,)}, (spec(2, 2),), "two or more"),
    ("extract_diagonal", {"axes": (0, 1)}, (spec(2, 3),), "equal in size"),
    ("extract_diagonal", {"axes": (1, 0)}, (spec(2, 2),), "increasing"),
    ("extract_diagonal", {"axes": (0, 0)}, (spec(2, 2),), "names an axis twice"),
    ("embed_diagonal", {"axis": 1, "copies": 1}, (spec(2),), "out of range"),
    ("embed_diagonal", {"axis": 0, "copies": 0}, (spec(2),), "must be positive"),
    ("embed_diagonal", {"axis": 0, "copies": 1.5}, (spec(2),), "must be positive"),
    ("embed_diagonal", {"axis": (0,), "copies": 1}, (spec(2),), "must be an integer"),
    ("convert", {"dtype": 5}, (spec(2),), "no name of a dtype"),
    ("convert", {"dtype": None}, (spec(2),), "no name of a dtype"),
    *(
        ("cast", {"dtype": name}, (spec(2),), "is none of bool, int8")
        for name in ("U1", "S3", "V8", "f4,i4", "(2,)f4", "datetime64[s]")
    ),
    ("convert", {"dtype": "U32"}, (spec(2),), "is none of bool, int8"),
    ("cast", {"dtype": "int64"}, (spec(2, dtype="U3"),), "it takes"),
    ("convert", {"dtype": "float99"}, (spec(2),), "unknown here"),
    ("copy", {}, (), "takes operands"),
    ("conj", {"axes": ()}, (spec(2),), "takes attributes"),
    ("add", {}, (spec(2),), "takes operands"),
    *((op, {}, (spec(2), spec(3)), "broadcast them first|it takes") for op in BINARY),
    *((op, {}, (spec(2),), "takes operands") for op in BINARY),
    *((op, {"axes": ()}, (spec(2),), "takes attributes") for op in UNARY),
    *((op, {}, (spec(2), spec(2)), "takes operands") for op in UNARY),
    *((op, {}, (spec(2, dtype="U3"),) * 2, "it takes") for op in BINARY),
    *((op, {}, (spec(2), spec(2, dtype="f4")), "convert one first|it takes") for op in BINARY),
    ("add", {}, (spec(2), spec(2, dtype=">f8")), "foreign byte order"),
    ("subtract", {}, (spec(2, dtype=bool),) * 2, "it takes"),
    ("maximum", {}, (spec(2, dtype=complex),) * 2, "it takes"),
    ("bitwise_not", {}, (spec(2),), "it takes"),
    ("select", {}, (spec(2), spec(2), spec(2)), "operand pred"),
    ("select", {}, (spec(3, dtype=bool), spec(2), spec(2)), "broadcast them first"),
    ("clamp", {}, (spec(2), spec(2), spec()), "broadcast them first"),
    ("reduce_sum", {"axes": (1,)}, (spec(2),), "out of range"),
    ("reduce_sum", {"axes": (0, 0)}, (spec(2),), "names an axis twice"),
    ("dot_general", {"batch": ((), ()), "contracting": ((0,), (0,))}, (spec(2), spec(3)), "differ"),
    ("dot_general", {"batch": ((), ()), "contracting": ((0,), ())}, (spec(2), spec(2)), "differ"),
    (
        "dot_general",
        {"batch": ((0,), (0,)), "contracting": ((0,), (0,))},
        (spec(2), spec(2)),
        "names an axis twice",
    ),
    (
        "dot_general",
        {"batch": ((), ()), "contracting": ((1,), (0,))},
        (spec(2), spec(2)),
        "out of range",
    ),
    (
        "dot_general",
        {"batch": ((), ()), "contracting": ((), ())},
        (spec(2), spec(2, dtype="i8")),
        "dtypes of",
    ),
    *(
        ("dot_general", {**INNER, "conj": conj}, (spec(2), spec(2)), "conj=.* must be two bools")
        for conj in (True, None, (True,), (True, False, True), (1, 0), [True, False], ("yes", "no"))
    ),
    ("dot_general", {**INNER, "alpha": 2}, (spec(2), spec(2)), r"takes attributes \(.*conj\)"),
    ("dot_general", INNER, (spec(2), spec(2), spec()), r"takes operands \(lhs, rhs\), got 3"),
    ("dot_general_add", INNER, (spec(2), spec(2)), r"takes operands \(lhs, rhs, acc\), got 2"),
    ("dot_general_add", INNER, (spec(2), spec(2), spec(1)), r"product has shape \(\), acc \(1,\)"),
    ("dot_general_add", INNER, (spec(2), spec(3), spec()), "differ"),
    (
        "dot_general_add",
        INNER,
        (spec(2), spec(2), spec(dtype="f4")),
        r"float32\[\] differ; convert",
    ),
    ("dot_general_add", INNER, (spec(2), spec(2), spec(dtype="U3")), "operand acc"),
    ("dot_general_add", {**INNER, "conj": 3}, (spec(2), spec(2), spec()), "two bools"),
    *(
        ("dot_general_add", {**INNER, name: value}, (x, x, y), f"{name}=.* is no")
        for name in ("alpha", "beta")
        for value, x, y in (
            ("1", spec(2), spec()),
            (None, spec(2), spec()),
            ((1,), spec(2), spec()),
            (1j, spec(2), spec()),
            (0.5, spec(2, dtype="i8"), spec(dtype="i8")),
            (-1, spec(2, dtype="u1"), spec(dtype="u1")),
            (10**400, spec(2), spec()),
        )
    ),
    ("dot_general", {"batch": (), "contracting": ((), ())}, (spec(2), spec(2)), "malformed"),
    ("dot_general", {"batch": ((), ()), "contracting": 3}, (spec(2), spec(2)), "malformed"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (), "takes operands"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (spec(2), spec(2)), "one term for each"),
    ("sum_product", {"terms": ((0,), (0,)), "output": ()}, (spec(2), spec(3)), "has sizes 2 and 3"),
    (
        "sum_product",
        {"terms": ((0,), (0,)), "output": ()},
        (spec(2), spec(2, dtype="i8")),
        "dtypes of",
    ),
    ("sum_product", {"terms": ((0, 0),), "output": ()}, (spec(2, 2),), "once each"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (spec(2, 2),), "once each"),
    ("sum_product", {"terms": ((0,),), "output": (0, 0)}, (spec(2),), "repeats a label"),
    ("sum_product", {"terms": ((0,),), "output": (1,)}, (spec(2),), "unknown one"),
    ("sum_product", {"terms": (0,), "output": ()}, (spec(2),), "must be a tuple"),
    ("sum_product", {"terms": ({0},), "output": ()}, (spec(2),), "must be a tuple"),
    ("sum_product", {"terms": ((0, 1),), "output": {0, 1}}, (spec(2, 3),), "must be a tuple"),
    ("constant", {"value": "1", "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": (1, 2), "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": None, "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": 1j, "dtype": "float64"}, (), "is no float64"),
    ("constant", {"value": 1, "dtype": "float65"}, (), "unknown here"),
    ("constant", {"value": 1, "dtype": "int8"}, (spec(),), "takes operands"),
    # structural
    ("reshape", {"shape": (4,)}, (spec(2, 3),), "does not hold"),
    ("reshape", {"shape": (-1, 2)}, (spec(2, 3),), "must be >= 0"),
    ("reshape", {"shape": (2.0, 3)}, (spec(2, 3),), "integers"),
    ("reshape", {"shape": range(2, 4)}, (spec(2, 3),), "must be a tuple"),
    ("reshape", {"shape": 6}, (spec(2, 3),), "malformed"),
    ("slice", {"starts": (0,), "stops": (3,), "steps": (1,)}, (spec(2),), "stops"),
    ("slice", {"starts": (-1,), "stops": (2,), "steps": (1,)}, (spec(2),), "must be >= 0"),
    ("slice", {"starts": (2,), "stops": (1,), "steps": (1,)}, (spec(2),), "starts"),
    ("slice", {"starts": (0,), "stops": (2,), "steps": (0,)}, (spec(2),), "must be >= 1"),
    ("slice", {"starts": (0,), "stops": (2,), "steps": (1,)}, (spec(2, 2),), "2 integers"),
    ("reverse", {"axes": (1,)}, (spec(2),), "out of range"),
    ("reverse", {"axes": (0, 0)}, (spec(2),), "names an axis twice"),
    ("pad", padding(interior=(-1,)), (spec(2),), "must be >= 0"),
    ("pad", padding(low=(-2,), high=(-1,)), (spec(2),), "crop more"),
    ("pad", padding(low=(1, 1)), (spec(2),), "1 integers"),
    ("pad", padding(value="0"), (spec(2),), "no Python number"),
    ("pad", padding(value=None), (spec(2),), "no Python number"),
    ("pad", padding(value=1j), (spec(2),), "is no float64"),
    ("pad", padding(value=256), (spec(2, dtype="u1"),), "is no uint8"),
    ("pad", padding(value=float("nan")), (index(2),), "is no int64"),
    ("concatenate", {"axis": 1}, (spec(2),), "out of range"),
    ("concatenate", {"axis": 0}, (spec(2, 3), spec(2, 2)), "differ beside"),
    ("concatenate", {"axis": 0}, (spec(2), spec(2, 2)), "differ beside"),
    ("concatenate", {"axis": 0}, (spec(2), index(2)), "convert one first"),
    ("concatenate", {"axis": 0}, (), "takes operands"),
    ("split", {"axis": 0, "sizes": (1, 2)}, (spec(2),), "do not add up"),
    ("split", {"axis": 0, "sizes": ()}, (spec(0),), "do not add up"),
    ("split", {"axis": 0, "sizes": (3, -1)}, (spec(2),), "must be >= 0"),
    ("split", {"axis": 1, "sizes": (2,)}, (spec(2),), "out of range"),
    ("tril", {"k": 0}, (spec(2),), "two axes"),
    ("tril", {"k": 0.5}, (spec(2, 2),), "must be an integer"),
    ("triu", {"k": 0}, (spec(),), "two axes"),
    ("triu", {"k": None}, (spec(2, 2),), "must be an integer"),
    ("contiguous", {}, (spec(2), spec(2)), "takes operands"),
    ("cast", {"dtype": "float99"}, (spec(2),), "unknown here"),
    ("cast", {"dtype": 5}, (spec(2),), "no name of a dtype"),
    ("convert", {"dtype": "float32"}, (spec(2),), "use cast"),
    ("convert", {"dtype": "int64"}, (spec(2),), "use cast"),
    ("convert", {"dtype": "bool"}, (index(2),), "use cast"),
    ("convert", {"dtype": "float64"}, (spec(2, dtype="c16"),), "use cast"),
    # reductions and order
    *((op, {"axes": (1,)}, (spec(2),), "out of range") for op in ("reduce_prod", "reduce_mean")),
    ("reduce_mean", {"axes": ()}, (index(2),), "it takes"),
    *(
        row
        for op in ("reduce_max", "reduce_min")
        for row in (
            (
                op,
                {"axes": (0,), "initial": None},
                (spec(0),),
                "nothing to reduce; reduce axes that have elements",
            ),
            (op, {"axes": (0, 0), "initial": None}, (spec(2),), "names an axis twice"),
            (op, {"axes": (0,), "initial": "0"}, (spec(2),), "no real number"),
            (op, {"axes": (0,), "initial": 1j}, (spec(2),), "no real number"),
            (op, {"axes": (0,), "initial": 128}, (spec(2, dtype="i1"),), "is no int8"),
            (op, {"axes": (0,), "initial": 0.5}, (index(2),), "is no int64"),
            (op, {"axes": (0,), "initial": float("-inf")}, (index(2),), "is no int64"),
            (op, {"axes": (0,), "initial": None}, (spec(2, dtype="c8"),), "it takes"),
        )
    ),
    *(
        row
        for op in ("argmax", "argmin")
        for row in (
            (op, {"axis": 0}, (spec(0, 2),), "is empty"),
            (op, {"axis": 1}, (spec(2),), "out of range"),
            (op, {"axis": None}, (spec(2),), "must be an integer"),
            (op, {"axis": 0}, (spec(2, dtype="c8"),), "it takes"),
        )
    ),
    ("normal_exponent", {}, (index(2),), "it takes"),
    ("ldexp", {}, (spec(2), index(2)), "must be a scalar"),
    ("ldexp", {}, (spec(2), spec()), "operand k"),
    ("ldexp", {}, (index(2), index()), "it takes"),
    ("associative_scan", {"axis": 1, "kind": "sum"}, (spec(2),), "out of range"),
    ("associative_scan", {"axis": 0, "kind": "mean"}, (spec(2),), "is not sum"),
    ("sort", {"axis": 1, "descending": False}, (spec(2),), "out of range"),
    ("sort", {"axis": 0, "descending": 1}, (spec(2),), "must be a bool"),
    ("argsort", {"axis": 0, "descending": None}, (spec(2),), "must be a bool"),
    # indexing
    ("take", {"axis": 1}, (spec(2), index(3)), "out of range"),
    ("take", {"axis": 0}, (spec(2), spec(3)), "operand indices"),
    ("take_along_axis", {"axis": 0}, (spec(2, 3), index(2, 2)), "differ beside"),
    ("take_along_axis", {"axis": 0}, (spec(2, 3), index(2)), "differ beside"),
    ("gather", gathering(slice_sizes=(1, 4)), (spec(2, 3), index(5, 1)), "do not fit into"),
    ("gather", gathering(slice_sizes=(2, 3)), (spec(2, 3), index(5, 1)), "are not 1 at"),
    ("gather", gathering(index_vector_dim=3), (spec(2, 3), index(5, 1)), "out of range"),
    ("gather", gathering(start_index_map=(0, 1)), (spec(2, 3), index(5, 1)), "2 are mapped"),
    ("gather", gathering(offset_dims=()), (spec(2, 3), index(5, 1)), "each window axis"),
    ("gather", gathering(offset_dims=(1, 1)), (spec(2, 3), index(5, 1)), "names an axis twice"),
    ("gather", gathering(collapsed_slice_dims=(2,)), (spec(2, 3), index(5, 1)), "out of range"),
    ("gather", gathering(), (spec(2, 3), spec(5, 1)), "operand indices"),
    ("gather_dynamic_slice_sizes", gathering(), (spec(2, 3), index(5, 2)), "2 entries"),
    (
        "gather_dynamic_slice_sizes",
        gathering(slice_sizes=(1, 4)),
        (spec(2, 3), index(5, 1)),
        "do not fit into",
    ),
    ("scatter", scattering(), (spec(2, 3), index(5, 1), spec(4, 3)), "do not fit"),
    ("scatter", scattering(), (spec(2, 3), index(5, 1), spec(5, 4)), "do not fit into"),
    ("scatter", scattering(), (spec(2, 3), index(5, 2), spec(5, 3)), "2 entries"),
    (
        "scatter",
        scattering(update_window_dims=(2,)),
        (spec(2, 3), index(5, 1), spec(5, 3)),
        "range",
    ),
    ("scatter_along_axis", along(), (spec(2, 3), index(2, 2), spec(2, 2)), "differ beside"),
    ("scatter_along_axis", along(), (spec(2, 3), index(1, 3), spec(2, 3)), "updates"),
    ("scatter_along_axis", along(mode="max"), (spec(2), index(1), spec(1)), "mode is"),
    ("scatter_along_axis", along(unique_indices=0), (spec(2), index(1), spec(1)), "a bool"),
    ("dynamic_slice", {"sizes": (3,)}, (spec(2), index(1)), "do not fit"),
    ("dynamic_slice", {"sizes": (1,)}, (spec(2), index(2)), "do not fit"),
    ("dynamic_slice", {"sizes": (1,)}, (spec(2), spec(1)), "operand starts"),
    ("dynamic_update_slice", {}, (spec(2), spec(3), index(1)), "misfit"),
    ("dynamic_update_slice", {}, (spec(2, 2), spec(1), index(2)), "misfit"),
    # windows and random
    ("unfold", window(kernel=(3,)), (spec(2),), "does not fit"),
    ("unfold", window(strides=(0,)), (spec(2),), "must be >= 1"),
    ("unfold", window(low=(-1,)), (spec(2),), "must be >= 0"),
    ("unfold", window(kernel=(2, 2)), (spec(2),), "must have 1 to 1 axes"),
    ("unfold", window(kernel=()), (spec(2),), "must have 1 to 1 axes"),
    ("fold", window(sizes=(4,)), (spec(2, 2),), "does not end in"),
    ("fold", window(sizes=(1,)), (spec(2, 2),), "does not fit"),
    ("threefry2x32", {}, (index(3), index(3)), "must be equal"),
    ("threefry2x32", {}, (index(2), index(3, 2)), "must be equal"),
    ("threefry2x32", {}, (spec(2), spec(2)), "it takes"),
    # contraction and host
    ("matmul", {}, (spec(2, 3), spec(2, 3)), "need"),
    ("matmul", {}, (spec(3), spec(3, 2)), "need"),
    ("matmul", {}, (spec(2, 2, 3), spec(3, 3, 2)), "need"),
    ("constant", {"value": float("nan"), "dtype": "int8"}, (), "is no int8"),
    ("constant", {"value": 128, "dtype": "int8"}, (), "is no int8"),
    ("constant", {"value": 10**400, "dtype": "float64"}, (), "is no float64"),
    ("shape_of", {"axis": 2}, (spec(2, 3),), "out of range"),
    ("dynamic_truncate", {"axis": 0}, (spec(2), index(1)), "must be a scalar"),
    ("dynamic_truncate", {"axis": 0}, (spec(2), spec()), "operand size"),
    ("pad_to_match", {"axis": 1}, (spec(2, 3), spec(2)), "out of range"),
    # linear algebra and Fourier transforms
    *((op, {}, (spec(2, 3),), "square") for op in ("cholesky", "eigh", "eig")),
    *((op, {}, (spec(2),), "matrices") for op in ("lu", "full_piv_lu", "qr", "svd")),
    *(
        (op, {}, (index(2, 2),), "it takes")
        for op in ("cholesky", "lu", "qr", "svd", "eig", "eigh")
    ),
    ("solve", {}, (spec(2, 2), spec(3, 1)), "do not fit"),
    ("solve", {}, (spec(2, 3), spec(2, 1)), "square"),
    ("triangular_solve", solving(), (spec(2, 2), spec(2)), "do not fit"),
    ("lu_solve", {"trans": "N"}, (spec(2, 2), index(3), spec(2, 1)), "pivots"),
    ("full_piv_lu_solve", {"trans": "N"}, (spec(2, 2), index(2), index(1), spec(2, 1)), "pivots"),
    *((op, {"axes": (1,)}, (spec(2),), "out of range") for op in ("fft", "ifft", "rfft")),
    ("fft", {"axes": (0,)}, (index(2),), "it takes"),
    ("rfft", {"axes": ()}, (spec(2),), "malformed"),
    ("fft", {"axes": (0,), "scale": 1}, (spec(2),), "finite float"),
    ("ifft", {"axes": (0,), "scale": math.inf}, (spec(2),), "finite float"),
    ("rfft", {"axes": (0,)}, (spec(2, dtype="c16"),), "it takes"),
    ("irfft", {"axes": (0,), "n": 5}, (spec(2, dtype="c16"),), "does not belong"),
    ("irfft", {"axes": (0,), "n": 0}, (spec(1, dtype="c16"),), "does not belong"),
]
