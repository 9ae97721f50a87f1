"""Contraction: equations, networks, trees, planners, lowering and the einsum front."""
