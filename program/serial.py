"""Programs and templates as JSON: versioned, exact, and refused when a newer version wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .._base.errors import FileFormatError
from ..backend.dims import DimExpr, from_code
from ..backend.rules import freeze
from ..backend.spec import ArraySpec, dtype_from_name, dtype_name
from .bounds import with_bounds
from .ir import FORMAT, VERSION, At, Program, Slot, StaticIndex, instruction
from .template import TEMPLATE_FORMAT, TEMPLATE_VERSION, ProgramTemplate, verify_template
from .verify import RULES, check, verify


def program_to_json(program: Program) -> str:
    """The program as one JSON document; `program_from_json` gives back an equal value."""
    return _document(program, FORMAT, VERSION)


def program_from_json(text: str) -> Program:
    """The verified program of a JSON document."""
    data = read_document(text, FORMAT, VERSION)
    rename = _RENAMED if data["version"] == 1 else {}
    program = Program(*_parts(data, FORMAT, _decode, rename))
    if data["version"] < 3:  # which had no bounds
        program = with_bounds(check(program, RULES[:-1]))
    return verify(program)


def template_to_json(template: ProgramTemplate) -> str:
    """The template as one JSON document; `template_from_json` gives back an equal value."""
    return _document(template, TEMPLATE_FORMAT, TEMPLATE_VERSION)


def template_from_json(text: str) -> ProgramTemplate:
    """The verified template of a JSON document."""
    data = read_document(text, TEMPLATE_FORMAT, TEMPLATE_VERSION)
    return verify_template(ProgramTemplate(*_parts(data, TEMPLATE_FORMAT, _decode_sizes, {})))


def _document(program: Program | ProgramTemplate, format: str, version: int) -> str:
    return json.dumps(
        {
            "format": format,
            "version": version,
            "einloom": _version(),
            "slots": [
                [dtype_name(slot.dtype), _encode(slot.shape), slot.bounds, slot.layout]
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
            "indices": [[index.name, _encode(index.size)] for index in program.indices],
        }
    )


def _parts(
    data: dict[str, Any], format: str, decode: Callable[[Any], Any], rename: dict[str, str]
) -> tuple[Any, ...]:
    """The fields of a program or template."""
    try:
        return (
            tuple(_slot(decode, *entry) for entry in data["slots"]),
            tuple(
                instruction(
                    rename.get(_name(entry["op"]), entry["op"]),
                    tuple(entry["inputs"]),
                    tuple(entry["outputs"]),
                    {name: freeze(decode(value)) for name, value in entry["attributes"].items()},
                )
                for entry in data["instructions"]
            ),
            tuple(data["inputs"]),
            tuple(data["outputs"]),
            tuple(StaticIndex(_name(name), decode(n)) for name, n in data.get("indices", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{format}: the document lacks or garbles {error}") from None


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


def _slot(
    decode: Callable[[Any], Any], dtype: str, shape: Any, bounds: Any = (), layout: Any = None
) -> Slot:
    """Versions 1 and 2 of programs gave dtype and shape alone."""
    order = None if layout is None else tuple(layout)
    return Slot(ArraySpec(dtype_from_name(dtype), tuple(decode(shape))), tuple(bounds), order)


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, DimExpr):
        return {"size": value.code}
    if isinstance(value, At):
        return {"index": value.index}
    return {"complex": [value.real, value.imag]} if isinstance(value, complex) else value


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return At(value["index"]) if "index" in value else complex(*value["complex"])


def _decode_sizes(value: Any) -> Any:
    """Of templates, where sizes are written as postfix code; an axis of an input is a pair."""
    if isinstance(value, list):
        return [_decode_sizes(item) for item in value]
    if isinstance(value, dict) and "size" in value:
        return from_code(tuple(x) if isinstance(x, list) else x for x in value["size"])
    return _decode(value)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"an op: {value!r}")
    return value


def _version() -> str:
    package = __name__.partition(".")[0]  # by name: an import would reach up to the facade
    return str(import_module(package).__version__)
