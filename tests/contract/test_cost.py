"""Cost, flops and largest intermediate are opt_einsum's numbers, and those of a naive recount."""

from __future__ import annotations

import math
import random

import opt_einsum
import pytest
from tests.cases import CORPUS, Case
from tests.networks import (
    FAMILIES,
    Path,
    equation_of,
    random_network,
    random_networks,
    random_ssa_path,
)

import einloom
from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.tree import ContractionTree


def recount(network: Network, ssa_path: Path) -> tuple[int, int, int]:
    """Cost, flops and largest intermediate from sets of names, as their definitions say."""
    tensors = {k: set(term) for k, term in enumerate(network.inputs)}
    cost = flops = largest = 0
    for step in ssa_path:
        union = set().union(*(tensors.pop(tensor) for tensor in step))
        kept = union & set(network.output).union(*tensors.values())
        tensors[len(network.inputs) + cost_steps(tensors, network)] = kept
        size = math.prod(network.sizes[label] for label in union)
        cost += size
        flops += size * (max(1, len(step) - 1) + (kept != union))
        largest = max(largest, math.prod(network.sizes[label] for label in kept))
    return cost, flops, largest


def cost_steps(tensors: dict[int, set[str]], network: Network) -> int:
    """How many results there have been: their numbers follow those of the inputs."""
    return max([0, *(tensor + 1 - len(network.inputs) for tensor in tensors)])


def numbers(network: Network, path: Path) -> tuple[int, int, int]:
    plan = einloom.plan(network, planner=path)
    return plan.cost, plan.flops, plan.largest_intermediate
