"""A PlanSet as JSON: the plans of its equations, and which operands they are of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .._base.errors import FileFormatError
from ..backend.spec import ArraySpec, dtype_from_name, dtype_name
from ..program.serial import read_document
from .plan import Plan, _ints, _label_from_json, _label_to_json, _version

if TYPE_CHECKING:
    from .plan_set import PlanSet

FORMAT, VERSION = "einloom.plan_set", 2
"""1 had no groups."""


def set_to_json(together: PlanSet) -> str:
    """One JSON document; names of results that JSON and tuples of it cannot say become integers."""
    keys = None if together.keys is None else [_label_to_json(key) for key in together.keys]
    renamed = keys is not None and any(key is None for key in keys)
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "einloom": _version(),
            "operands": together.operands,
            "dtypes": [dtype_name(spec.dtype) for spec in together.specs],
            "shapes": [spec.shape for spec in together.specs],
            "layouts": [spec.layout for spec in together.specs],
            "keys": list(range(len(keys or ()))) if renamed else keys,
            "keys_replaced": renamed,
            "terms": together.terms,
            "plans": [json.loads(plan.to_json()) for plan in together.plans],
            "apart": together.apart,
            "groups": together.groups,
            "memory_limit": together.memory_limit,
        }
    )


def set_from_json(text: str) -> PlanSet:
    """The set of a JSON document, checked as if it were made anew."""
    data = read_document(text, FORMAT, VERSION)
    try:
        return _from_document(data)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, FileFormatError):  # of a plan
            raise
        raise FileFormatError(f"{FORMAT}: the document lacks or garbles {error}") from None


def _from_document(data: dict[str, Any]) -> PlanSet:
    from .plan_set import PlanSet

    operands, terms = _names(data["operands"]), tuple(map(_names, data["terms"]))
    if len(set(operands)) != len(operands) or set(operands) != {x for row in terms for x in row}:
        raise ValueError("operands, which are not those of the terms")
    rows = zip(operands, data["dtypes"], data["shapes"], data["layouts"], strict=True)
    specs = {name: _spec(*row) for name, *row in rows}
    plans = tuple(Plan.from_json(json.dumps(plan)) for plan in data["plans"])
    groups = _groups(data, len(plans))
    own = {group[0] for group in groups if len(group) == 1}
    for k, (plan, names) in enumerate(zip(plans, terms, strict=True)):
        if plan.network.shapes != tuple(specs[name].shape for name in names):
            raise ValueError(f"shapes, of {', '.join(names):.60}")
        if plan.dtypes != tuple(specs[name].dtype for name in names):
            raise ValueError(f"dtypes, of {', '.join(names):.60}")
        if (plan.sliced and k not in own) or plan.constants or plan.conj or plan.strip_exponent:
            raise ValueError("plans, of which one does what sets do not")
    keys = None if data["keys"] is None else tuple(map(_label_from_json, data["keys"]))
    is_list = type(data["keys"]) in (list, type(None))
    if not plans or not is_list or (keys is not None and len(set(keys)) != len(plans)):
        raise ValueError("keys, one for each plan")
    if type(data["apart"]) is not int or data["apart"] < 0:
        raise ValueError(f"apart, got {data['apart']!r:.40}")
    return PlanSet(
        plans, operands, tuple(specs.values()), terms, keys, data["apart"], groups, _limit(data)
    )


def _limit(data: dict[str, Any]) -> int | None:
    limit = data["memory_limit"] if data["version"] > 1 else None
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"memory_limit, got {limit!r:.40}")
    return limit


def _groups(data: dict[str, Any], n: int) -> tuple[tuple[int, ...], ...]:
    """All equations in order, cut into groups; or none."""
    groups = tuple(map(_ints, data["groups"])) if data["version"] > 1 else ()
    if groups and ([k for group in groups for k in group] != list(range(n)) or () in groups):
        raise ValueError(f"groups, got {data['groups']!r:.40}")
    return groups


def _names(row: Any) -> tuple[str, ...]:
    if type(row) is not list or not all(type(name) is str for name in row):
        raise TypeError(f"names of operands, got {row!r:.40}")
    return tuple(row)


def _spec(dtype: Any, shape: Any, layout: Any) -> ArraySpec:
    spec = ArraySpec(
        dtype_from_name(dtype), _ints(shape), None if layout is None else _ints(layout)
    )
    if min(spec.shape, default=0) < 0:
        raise ValueError(f"shapes, got {shape!r:.40}")
    if spec.layout is not None and sorted(spec.layout) != list(range(len(spec.shape))):
        raise ValueError(f"layouts, got {layout!r:.40}")
    return spec
