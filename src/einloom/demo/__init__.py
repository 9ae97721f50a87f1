"""The demo of ``einloom demo``: physics with known answers, computed as tensor networks."""

from __future__ import annotations

from .report import DemoReport, DemoRow
from .run import run_demo

__all__ = ["DemoReport", "DemoRow", "run_demo"]
