"""Text of StableHLO, written of a frozen program and read by nobody here."""

from .export import RULES, stablehlo

__all__ = ["RULES", "stablehlo"]
