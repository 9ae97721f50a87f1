"""Plan, compile and run tensor contractions."""

__version__ = "0.1.0.dev0"
