"""Which numbers an op takes and which it yields: classes of dtypes, and policies over them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._base.errors import DTypeError, ProgramError
from .spec import dtype_from_name, dtype_name, is_lowprec

DType = np.dtype[np.generic]
Class = Literal["bool", "int", "uint", "float", "complex", "object", "storage", "other"]
Policy = frozenset[Class]

ANY: Policy = frozenset(("bool", "int", "uint", "float", "complex", "object", "storage", "other"))
NUMBERS: Policy = frozenset(("bool", "int", "uint", "float", "complex", "object"))
SIGNED_OR_NOT: Policy = NUMBERS - {"bool"}
ORDERED: Policy = NUMBERS - {"complex"}
REAL: Policy = ORDERED - {"bool"}
WHOLE: Policy = frozenset(("bool", "int", "uint"))
INEXACT: Policy = frozenset(("float", "complex", "object"))
FLOAT: Policy = frozenset(("float",))
FLOATING: Policy = frozenset(("float", "complex"))
COMPLEX: Policy = frozenset(("complex",))
WORDS: Policy = frozenset(("int", "uint"))
INDEX: Policy = frozenset(("int",))

OPERAND_CLASSES: dict[str, Policy] = {"bool": frozenset(("bool",)), "index": INDEX, "any": ANY}
"""What may stand behind the colon of an operand's name in a catalogue row."""

NAMES = {  # the dtypes that the documentation's table and the conformance suite go through
    "bool": ("bool",),
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "float": ("float16", "bfloat16", "float32", "float64", "longdouble"),
    "complex": ("complex64", "complex128", "clongdouble"),
    "object": ("object",),
    "storage": ("float8_e4m3fn", "float8_e5m2", "int4", "uint4"),
}


def class_of(dtype: DType) -> Class:
    """The class of a dtype; 8-bit floats and 4-bit integers are storage, strings and dates other.

    >>> class_of(np.dtype("uint8")), class_of(np.dtype("complex64")), class_of(np.dtype("U3"))
    ('uint', 'complex', 'other')
    """
    if is_lowprec(dtype):
        return "float" if dtype.name == "bfloat16" else "storage"
    known: dict[str, Class] = {
        "b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "O": "object",
    }  # fmt: skip
    return known.get(dtype.kind, "other")


def real_of(dtype: DType) -> DType:
    """The dtype of the real and imaginary parts of numbers of `dtype`."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def complex_of(dtype: DType) -> DType:
    """The complex dtype of the same precision; half precisions become complex64."""
    if dtype.kind == "c":
        return dtype
    return np.result_type(dtype if dtype.kind == "f" else np.float32, np.complex64)


def mixed(x: DType, y: DType) -> DType | None:
    """The complex one of a real and a complex dtype of the same precision; None for any other two.

    >>> mixed(np.dtype("float32"), np.dtype("complex64")), mixed(np.dtype("f8"), np.dtype("c8"))
    (dtype('complex64'), None)
    """
    for real, other in ((x, y), (y, x)):
        if real.kind == "f" and other.kind == "c" and real_of(other) == real:
            return other
    return None


def reaches(source: DType, target: DType) -> bool:
    """Whether NumPy's promotion takes `source` to `target`, so that `convert` may do it.

    >>> reaches(np.dtype("int32"), np.dtype("float64")), reaches(np.dtype("f8"), np.dtype("f4"))
    (True, False)
    """
    if source == target or target.kind == "O":
        return True
    try:
        return bool(np.result_type(source, target) == target)
    except TypeError:  # no promotion between the two
        return False


Result = Literal["same", "bool", "real", "index", "complex", "attribute"]


def result_dtype(result: Result, data: DType, attribute: str = "") -> DType:
    """The dtype of an op's output, from that of its data operands."""
    if result == "bool":
        return np.dtype(bool)
    if result == "index":
        return np.dtype(np.int64)
    if result == "real":
        return real_of(data)
    if result == "complex":
        return complex_of(data)
    if result == "attribute":
        return dtype_from_name(attribute)
    return data


def check_convert(source: DType, target: DType) -> None:
    """`convert` never loses the kind of a number; `cast` may."""
    if not reaches(source, target):
        raise ProgramError(
            f"convert: NumPy's promotion does not take {source} to {target}; use cast, which may "
            f"round, saturate or drop an imaginary part"
        )


def check_target(op: str, source: DType, target: DType) -> None:
    """Numbers become numbers: no strings, dates, records or blocks."""
    if class_of(target) == "other" and target != source:
        known = ", ".join(name for names in NAMES.values() for name in names)
        raise DTypeError(f"{op}: dtype {dtype_name(target)} is none of {known}")


def integer_range(dtype: DType) -> tuple[int, int] | None:
    """Least and largest value of an integer dtype, those of 4 and 2 bits included; None for others.

    >>> integer_range(np.dtype("int8")), integer_range(np.dtype("float32"))
    ((-128, 127), None)
    """
    if dtype.kind in "iu":
        info: Any = np.iinfo(dtype)
        return int(info.min), int(info.max)
    if is_lowprec(dtype) and "int" in dtype.name:
        import ml_dtypes

        small = ml_dtypes.iinfo(dtype)
        return int(small.min), int(small.max)
    return None


def check_number(op: str, name: str, value: object, dtype: DType, whole: bool = False) -> None:
    """An attribute is a Python number that `dtype` has; integers take fractions unless `whole`."""
    if type(value) not in (bool, int, float, complex):
        raise ProgramError(f"{op}: {name}={value!r} is no Python number")
    bounds = integer_range(dtype)
    fits = dtype.kind in "cO" or type(value) is not complex
    if fits and bounds is not None:
        low, high = bounds
        fits = low <= value <= high and not (whole and value % 1)  # type: ignore[operator]
    if fits and bounds is None and type(value) is int and dtype.kind not in "bO":
        fits = abs(value) < 1 << 1023  # what Python's own floats hold
    if not fits:
        raise ProgramError(f"{op}: {name}={value!r} is no {dtype_name(dtype)}")
