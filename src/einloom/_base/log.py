"""The logger `einloom`; silent until the user configures `logging`."""

from __future__ import annotations

import logging

log = logging.getLogger("einloom")
log.addHandler(logging.NullHandler())
