"""`python -m einloom` is the command `einloom`."""

import sys

from .cli import main

sys.exit(main())
