"""Many quick cases in one test: to report ten thousand tests apart takes longer than to run them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., None])


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[F], F]:
    """As `pytest.mark.parametrize`, within one test; what fails first is noted in the error.

    The cases share the test's fixtures, and none of them may skip.
    """
    rows = list(cases)

    def decorate(test: F) -> F:
        own = (names,) if isinstance(names, str) else names
        signature = inspect.signature(test)

        @wraps(test)
        def loop(*args: Any, **fixtures: Any) -> None:
            assert rows
            for row in rows:
                values = (row,) if isinstance(names, str) else row
                try:
                    test(*args, **fixtures, **dict(zip(own, values, strict=True)))
                except Exception as error:
                    case = ", ".join(map("{}={!r}".format, own, values))
                    error.add_note(f"{test.__name__} of {case}")
                    raise

        left = [one for name, one in signature.parameters.items() if name not in own]
        loop.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return loop  # type: ignore[return-value]

    return decorate
