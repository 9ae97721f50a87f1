"""Planners: every one is called as `planner(network, problem) -> Candidate`."""

from __future__ import annotations

from typing import Any

from ..._base.errors import OptionError
from .by_kahypar import by_kahypar
from .families import elimination, greedy, optimal, random_greedy
from .foreign import from_optimizer, from_path, one_step, opt_einsum_planner
from .portfolio import auto
from .problem import Candidate, Objective, Planner, Problem, named
from .sliced import sliced

PLANNERS: dict[str, Planner] = {
    "auto": auto,
    "greedy": greedy,
    "random-greedy": random_greedy,
    "elimination": elimination,
    "optimal": optimal,
    "dp": opt_einsum_planner("dp"),
    "kahypar": by_kahypar,
}


def as_planner(choice: Any, call: str, argument: str = "optimize") -> Planner:
    """The planner that a user's `optimize=` or `planner=` means.

    None, True and names; False for one step; a path, NumPy's ["einsum_path", ...] among them;
    NumPy's (name, elements); any optimizer of opt_einsum's protocol; a planner of our own.
    """
    if choice is None or choice is True:
        return PLANNERS["auto" if choice is None else "greedy"]
    if choice is False:
        return one_step
    if isinstance(choice, str):
        if choice not in PLANNERS:
            raise OptionError(
                f"{call}({argument}={choice!r}): no such planner; there are {', '.join(PLANNERS)}, "
                f"True, False, a path, or an optimizer of opt_einsum or cotengra"
            )
        return PLANNERS[choice]
    if callable(choice):
        return choice if getattr(choice, "is_einloom_planner", False) else from_optimizer(choice)
    if isinstance(choice, (list, tuple)):
        return _from_sequence(choice, call, argument)
    raise OptionError(
        f"{call}({argument}={choice!r:.60}): give a planner's name, True, False, a path or an optimizer"
    )


def planner(function: Planner) -> Planner:
    """Mark a function of the signature (network, problem) -> Candidate as a planner (decorator)."""
    function.is_einloom_planner = True  # type: ignore[attr-defined]
    return function


def _from_sequence(choice: Any, call: str, argument: str) -> Planner:
    if choice and isinstance(choice[0], str):
        if choice[0] == "einsum_path":
            return from_path(choice[1:])
        if len(choice) == 2 and isinstance(choice[1], (int, float)):
            name = {"auto": "auto", "greedy": "greedy", "optimal": "optimal"}.get(choice[0])
            if name is None or not choice[1] > 0:
                raise OptionError(
                    f'{call}({argument}={choice!r}): expected ("greedy" or "optimal", elements > 0)'
                )
            return opt_einsum_planner(name, int(min(choice[1], 1 << 62)))
        raise OptionError(
            f'{call}({argument}={choice!r:.60}): expected ["einsum_path", (0, 1), ...] or (name, elements)'
        )
    return from_path(choice)


for _function in (auto, greedy, random_greedy, elimination, optimal, by_kahypar, one_step, sliced):
    planner(_function)

__all__ = [
    "PLANNERS",
    "Candidate",
    "Objective",
    "Planner",
    "Problem",
    "as_planner",
    "auto",
    "from_path",
    "named",
    "planner",
    "random_greedy",
    "sliced",
]
