"""Programs as JSON: versioned, exact, and refused when a newer version wrote them."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from .._base.errors import FileFormatError
from ..backend.rules import freeze
from ..backend.spec import ArraySpec, dtype_from_name, dtype_name
from .ir import FORMAT, VERSION, At, Program, Slot, StaticIndex, instruction
from .verify import verify


def program_to_json(program: Program) -> str:
    """The program as one JSON document; `program_from_json` gives back an equal value."""
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "einloom": _version(),
            "slots": [
                [dtype_name(slot.dtype), slot.shape, slot.bounds, slot.layout]
                for slot in program.slots
            ],
            "instructions": [
                {
                    "op": ins.op,
                    "attributes": {name: _encode(value) for name, value in ins.attributes},
                    "inputs": list(ins.inputs),
                    "outputs": list(ins.outputs),
                }
                for ins in program.instructions
            ],
            "inputs": list(program.inputs),
            "outputs": list(program.outputs),
            "indices": [[index.name, index.size] for index in program.indices],
        }
    )


def program_from_json(text: str) -> Program:
    """The verified program of a JSON document."""
    data = read_document(text, FORMAT, VERSION)
    rename = _RENAMED if data["version"] == 1 else {}
    try:
        program = Program(
            tuple(_slot(*entry) for entry in data["slots"]),
            tuple(
                instruction(
                    rename.get(_name(entry["op"]), entry["op"]),
                    tuple(entry["inputs"]),
                    tuple(entry["outputs"]),
                    {name: freeze(_decode(value)) for name, value in entry["attributes"].items()},
                )
                for entry in data["instructions"]
            ),
            tuple(data["inputs"]),
            tuple(data["outputs"]),
            tuple(StaticIndex(_name(name), size) for name, size in data.get("indices", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{FORMAT}: the document lacks or garbles {error}") from None
    return verify(program)


def read_document(text: str, format: str, version: int) -> dict[str, Any]:
    """The JSON object of `text` after checking its format and version."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: brackets without end
        raise FileFormatError(f"{format}: this is no JSON ({error})") from None
    if not isinstance(data, dict) or data.get("format") != format:
        got = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise FileFormatError(f"expected a document of format {format!r}, got {got!r}")
    if type(data.get("version")) is not int or data["version"] < 1:
        raise FileFormatError(f"{format}: version {data.get('version')!r} is no version")
    if data["version"] > version:
        raise FileFormatError(
            f"{format} version {data['version']} was written by a newer einloom; this one reads up "
            f"to version {version}: upgrade einloom"
        )
    return data


_RENAMED = {"convert": "cast"}  # version 1 had one op for both; where nothing is lost they agree


def _slot(dtype: str, shape: Any, bounds: Any = (), layout: Any = None) -> Slot:
    """Versions 1 and 2 gave dtype and shape alone."""
    order = None if layout is None else tuple(layout)
    return Slot(ArraySpec(dtype_from_name(dtype), tuple(shape)), tuple(bounds), order)


def _encode(value: Any) -> Any:
    if isinstance(value, At):
        return {"index": value.index}
    return {"complex": [value.real, value.imag]} if isinstance(value, complex) else value


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return At(value["index"]) if "index" in value else complex(*value["complex"])


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an op: {value!r}")
    return value


def _version() -> str:
    package = __name__.partition(".")[0]  # by name: an import would reach up to the facade
    return str(import_module(package).__version__)
