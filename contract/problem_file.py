"""Problem files: an equation with shapes and, if wanted, paths, as JSON.

    {"name": ..., "format_string": "ij,jk->ik", "shapes": [[2, 3], [3, 4]], "dtype": "float64",
     "paths": {"opt_flops": {"path": [[0, 1]]}}}

The format is that of the problems of tenferro-benchmark (https://github.com/tensor4all).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._base.errors import FileFormatError
from ..backend.spec import dtype_from_name, is_lowprec


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """What a problem file says; `arrays` draws operands for it."""

    name: str
    equation: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    paths: dict[str, list[tuple[int, ...]]]

    def arrays(self, seed: int) -> list[Any]:
        """Normal random operands, scaled so that sums over their axes stay near 1."""
        return list(self._draw(np.random.default_rng(seed)))

    def _draw(self, rng: np.random.Generator) -> Iterator[Any]:
        for shape in self.shapes:
            x = rng.standard_normal(shape)
            if self.dtype.kind == "c":
                x = x + 1j * rng.standard_normal(shape)
            scale = max(1, int(np.prod(shape))) ** 0.25 if self.dtype.kind in "fc" else 0.5
            yield (x / scale).astype(self.dtype)


def read_problem(path: str | Path) -> ProblemFile:
    """Read a problem file; `FileFormatError` names the file and what is wrong with it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: cannot be read ({error})") from None
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: this is no JSON ({error})") from None
    try:
        _is(dict, data, "a problem")
        return ProblemFile(
            name=str(data.get("name", Path(path).stem)),
            equation=_is(str, data["format_string"], "format_string"),
            shapes=tuple(_integers(x, "shapes") for x in _is(list, data["shapes"], "shapes")),
            dtype=_number(dtype_from_name(_is(str, data.get("dtype", "float64"), "dtype"))),
            paths={
                name: [
                    _integers(step, "paths")
                    for step in _is(list, _is(dict, entry, f"path {name}")["path"], f"path {name}")
                ]
                for name, entry in _is(dict, data.get("paths", {}), "paths").items()
            },
        )
    except KeyError as error:
        raise FileFormatError(
            f"{path}: the key {error} is missing; a problem has format_string, shapes and, if wanted, "
            f"name, dtype and paths"
        ) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{path}: {error}") from None


def _is(kind: type, value: Any, key: str) -> Any:
    if not isinstance(value, kind):
        name = {"str": "a string", "list": "a list", "dict": "an object"}[kind.__name__]
        raise TypeError(f"{key} should be {name}, got {value!r:.40}")
    return value


def _number(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biufc" and not is_lowprec(dtype):
        raise TypeError(f"dtype should be one of numbers, got {dtype}")
    return dtype


def _integers(values: Any, key: str) -> tuple[int, ...]:
    if not isinstance(values, list) or any(type(n) is not int or n < 0 for n in values):
        raise TypeError(f"{key} should hold lists of integers >= 0, got {values!r:.40}")
    return tuple(values)
