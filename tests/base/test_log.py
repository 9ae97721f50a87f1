"""The log: one logger under the package's name, silent until the user asks."""

from __future__ import annotations

import logging

import pytest

from einloom._base.log import log


def test_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Python prints warnings of loggers without a handler; this one has a handler that drops them."""
    assert log is logging.getLogger("einloom")
    assert any(isinstance(handler, logging.NullHandler) for handler in log.handlers)
    assert log.level == logging.NOTSET
    log.warning("heard by nobody")
    assert capsys.readouterr() == ("", "")


def test_heard_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "einloom"):
        log.info("heard")
    assert caplog.messages == ["heard"]
