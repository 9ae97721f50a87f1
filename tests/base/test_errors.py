"""One tree of errors, each caught by what users of NumPy catch today; carets under the spot."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einloom
from einloom._base import errors
from einloom._base.errors import EinloomError, caret

BUILTIN: dict[str, tuple[type[Exception], ...]] = {
    "SubscriptError": (ValueError,),
    "ShapeError": (ValueError,),
    "DTypeError": (TypeError,),
    "IndexRangeError": (IndexError,),
    "PathError": (ValueError, RuntimeError),
    "OptionError": (ValueError,),
    "CallError": (TypeError,),
    "ConversionError": (TypeError,),
    "MemoryLimitError": (MemoryError,),
    "WorkerLostError": (RuntimeError,),
    "FileFormatError": (ValueError,),
    "LinAlgError": (np.linalg.LinAlgError, ValueError),
    "MatrixShapeError": (np.linalg.LinAlgError, ValueError),
    "ProgramError": (ValueError,),
    "ExtensionError": (LookupError,),
    "Unsupported": (NotImplementedError,),
    "DeviceError": (LookupError,),
    "NodeError": (LookupError,),
    "OrderError": (RuntimeError,),
    "MergeError": (ValueError,),
    "ClosedError": (RuntimeError,),
}

DEFINED = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, Exception) and kind is not EinloomError
}


def test_table_is_complete() -> None:
    assert set(DEFINED) == set(BUILTIN)


@pytest.mark.parametrize("name", BUILTIN)
def test_tree(name: str) -> None:
    kind = DEFINED[name]
    assert issubclass(kind, EinloomError)
    assert all(issubclass(kind, base) for base in BUILTIN[name])
    assert getattr(einloom, name) is kind
    assert kind.__doc__
    assert str(kind("what was got")) == "what was got"


def test_root() -> None:
    assert EinloomError.__bases__ == (Exception,)
    assert einloom.EinloomError is EinloomError


def spot(lines: str) -> tuple[str, int]:
    """The text shown and the column of the first caret in it."""
    text, carets = lines.split("\n")
    assert set(carets) == {" ", "^"}
    return text, carets.index("^")


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=300), st.data()
)
def test_caret_is_under_the_spot(text: str, data: st.DataObject) -> None:
    """Whatever the length: the character above the caret is the one named, in sight."""
    position = data.draw(st.integers(0, len(text) - 1))
    shown, column = spot(caret(text, position))
    assert shown[column] == text[position]
    assert shown[column : column + 5].removesuffix("...") in text
    assert len(shown) <= 82
    if len(text) <= 76:
        assert shown == f"    {text}"
    else:
        assert "..." in shown


def test_caret_after_the_end() -> None:
    """Something is missing at the end of the text."""
    for text in ("ij,jk->", "ab," * 40 + "->"):
        shown, column = spot(caret(text, len(text)))
        assert column == len(shown)


def test_caret_window() -> None:
    text = "a" * 100 + "$" + "b" * 100
    shown, column = spot(caret(text, 100))
    assert shown == "    ..." + "a" * 36 + "$" + "b" * 35 + "..."
    assert shown[column] == "$"
    assert spot(caret(text, 3))[0] == "    " + "a" * 72 + "..."
    assert spot(caret(text, 199))[0] == "    ..." + text[163:]


def test_caret_width() -> None:
    assert caret("ij,jk->iz", 8, 1).endswith("\n            ^")
    assert caret("ij,jk->iz", 3, 2).endswith("\n       ^^")
    assert caret("ij", 1, 0).endswith("\n     ^")


def test_wide_spot_stays_in_the_window() -> None:
    text = "a" * 300
    shown, carets = caret(text, 100, 200).split("\n")
    assert len(carets) <= len(shown)


def test_linear_algebra_names_the_members() -> None:
    """What failed survives a pickle, as an executor makes one."""
    error = pickle.loads(
        pickle.dumps(errors.LinAlgError("2 of 3", np.array([0, 1, 2]), ((1,), (2,))))
    )
    assert str(error) == "2 of 3"
    assert error.failed == ((1,), (2,))
    assert error.info.tolist() == [0, 1, 2]
    assert errors.LinAlgError("all").info is None
