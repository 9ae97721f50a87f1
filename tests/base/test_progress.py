"""The progress line: on a terminal, after some patience, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from einloom._base.options import options
from einloom._base.progress import Progress

CLOCK = "einloom._base.progress.time.perf_counter"


class Terminal(io.StringIO):
    """What sys.stderr is in a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(total: int = 4, steps: int = 1, patience: float = -1, to: type = Terminal) -> str:
    """What is written for `total` steps of work; negative patience draws at once."""
    with contextlib.redirect_stderr(to()) as stream:
        with Progress("planning", total, patience=patience) as progress:
            for _ in range(total):
                progress.advance(steps)
        return str(stream.getvalue())


def test_draws_on_a_terminal() -> None:
    text = drawn()
    assert text.startswith("\rplanning [")
    assert text.endswith("\n")
    last = text.rstrip("\n").split("\r")[-1]
    assert f"[{'#' * 24}] 100%" in last
    assert all(len(line) < 79 for line in text.split("\r"))


def test_share_grows_and_ends_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves a second with each look draws every step."""
    seconds = iter(range(1000))
    monkeypatch.setattr(CLOCK, lambda: float(next(seconds)))
    lines = drawn(total=5).split("\r")[1:]
    shares = [int(line.split("]")[1].split("%")[0]) for line in lines]
    assert shares == [20, 40, 60, 80, 100, 100]


def test_at_most_ten_lines_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves a millisecond with each look."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(CLOCK, lambda: next(ticks) / 1000)
    lines = drawn(total=1000).count("\r")
    assert 2 <= lines <= next(ticks) / 100 + 2


def test_more_steps_than_promised() -> None:
    text = drawn(total=2, steps=5)
    assert "100%" in text
    assert "500%" not in text


@pytest.mark.parametrize("wanted", ["auto", True])
def test_nothing_to_do(wanted: bool | str) -> None:
    with options(progress=wanted):
        assert drawn(total=0) == ""


def test_nothing_while_patient() -> None:
    assert drawn(patience=1000) == ""


def test_nothing_where_no_terminal_is() -> None:
    assert drawn(to=io.StringIO) == ""


def test_nothing_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under pythonw: there is no stderr at all."""
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("planning", 1, patience=-1) as progress:
        progress.advance()


def test_switched_off() -> None:
    with options(progress=False):
        assert drawn() == ""


def test_switched_on() -> None:
    with options(progress=True):
        assert "100%" in drawn(to=io.StringIO)


def test_line_ends_after_an_error() -> None:
    with (
        contextlib.redirect_stderr(Terminal()) as stream,
        contextlib.suppress(KeyboardInterrupt),
        Progress("planning", 4, patience=-1) as progress,
    ):
        progress.advance()
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\n")
    assert " 25% " in stream.getvalue()
