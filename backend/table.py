"""The table of ops by backend and dtype, as Markdown, from the catalogue and from what backends say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .catalogue import CATALOGUE, OpRow
from .dtypes import NAMES
from .protocol import Backend
from .vocabulary import STABLEHLO

HEAD = """# Ops

Every op of the catalogue: what it takes, its law, the names under which the
[reference documents](features.md) ask for it (nx: Nx, onnx: the trait over ONNX graphs, tf: tenferro), the
op of [StableHLO](interop.md) that answers it, by itself or as the main part of a few, and the dtypes that
each backend computes. A dash: the backend has no kernel and raises `Unsupported`.
`{all}` stands for bool, the integers of 8 to 64 bits, signed and unsigned, float16, bfloat16, float32,
float64, longdouble, complex64, complex128, clongdouble and object; storage for the 8-bit floats and
4-bit integers of ml_dtypes, which are stored and cast, not computed with. A law with a ⁺ gives a view of
its operand, with a ⁽⁺⁾ where strides allow.

This page is generated: `einloom ops > docs/ops.md`.
"""
ALL = "all"
_RANGES = {
    "bool": "bool",
    "int": "int8–64",
    "uint": "uint8–64",
    "complex": "complex64, complex128, clongdouble",
    "object": "object",
    "storage": "storage",
}


def op_table(backends: Sequence[Backend]) -> str:
    """The page: a heading for each group of ops, a row for each op, a column for each backend."""
    lines = [HEAD.replace("{all}", ALL)]
    supported = {backend.name: backend.capabilities() for backend in backends}
    for group, rows in groupby(CATALOGUE.values(), key=lambda row: row.group):
        names = " | ".join(supported)
        lines.append(f"## {group}\n\n| op | law | asked for as | StableHLO | {names} |")
        lines.append(f"|---|---|---|---|{'---|' * len(supported)}")
        for row in rows:
            cells = [dtypes_cell(known.get(row.name)) for known in supported.values()]
            mark = {"never": "", "maybe": " ⁽⁺⁾", "always": " ⁺"}[row.view]
            law = f"{row.law}{mark}".replace("|", "\\|").replace("*", "\\*")
            names = f"{row.asked or '-'} | {STABLEHLO.get(row.name, '-')}"
            lines.append(f"| {_call(row)} | {law} | {names} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _call(row: OpRow) -> str:
    shown = [
        f"{name}={row.defaults[name]}" if name in row.defaults else name for name in row.attributes
    ]
    attributes = f" [{', '.join(shown)}]" if shown else ""
    return f"`{row.name}({', '.join(row.operands)}){attributes}`"


def dtypes_cell(names: frozenset[str] | None) -> str:
    """A set of dtypes in few words.

    >>> dtypes_cell(frozenset(NAMES["int"] + ("float32", "float64")))
    'int8–64, float32, float64'
    """
    if not names:
        return "-"
    everything = {name for kind, known in NAMES.items() if kind != "storage" for name in known}
    if everything <= names:
        return f"{ALL}, storage" if set(NAMES["storage"]) <= names else ALL
    words = []
    for kind, known in NAMES.items():
        if set(known) <= names and kind in _RANGES:
            words.append(_RANGES[kind])
        else:
            words += [name for name in known if name in names]
    return ", ".join(words)
