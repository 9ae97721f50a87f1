"""The cost model: kept and found again, refused where it is not for this machine, and what it is asked."""

from __future__ import annotations

import itertools
import json
import logging
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.options import SMALL, options
from einloom.backend import cost_model, processor
from einloom.backend.catalogue import Attrs, dot_dims
from einloom.backend.contraction import Contraction
from einloom.backend.cost_model import FILE, MODELS, NARROW, CostModel, keep, shipped
from einloom.backend.cpu import tune as measuring
from einloom.backend.cpu.contraction import dot_engine
from einloom.backend.matrices import plan_matrices
from einloom.backend.prediction import predict
from einloom.backend.spec import ArraySpec, Shape
from einloom.contract import tuning

OTHER = CostModel(products=1e9, edges=(3, 2, 1))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with options(cache_dir=str(tmp_path)):
        MODELS.use(None)
        yield tmp_path
    MODELS.use(None)


def test_the_shipped_one_is_used_where_none_is_kept() -> None:
    assert MODELS.current == CostModel()


def test_what_is_known_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of vendor, family and BLAS core; those of another core, or processor, are the general ones."""
    monkeypatch.setitem(cost_model.KNOWN, ("Vendor", "26", "Core"), CostModel(blocks=1.5))
    for facts, core, blocks in (
        ({"vendor_id": "Vendor", "cpu family": "26"}, "Core", 1.5),
        ({"vendor_id": "Vendor", "cpu family": "26"}, "Other", CostModel().blocks),
        ({"vendor_id": "Vendor", "cpu family": "26"}, None, CostModel().blocks),
        ({"vendor_id": "Vendor", "cpu family": "25"}, "Core", CostModel().blocks),
        ({}, "Core", CostModel().blocks),
    ):
        monkeypatch.setattr(processor, "facts", lambda facts=facts: facts)
        monkeypatch.setattr(processor, "blas_core", lambda core=core: core)
        assert shipped() == CostModel(blocks=blocks)


def test_processors_without_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a model of their own, but for those that are known themselves; others than x86 have not."""
    narrow, own = CostModel(strips=0.6, strip_lines=1), CostModel(blocks=1.5)
    monkeypatch.setitem(cost_model.KNOWN, cost_model.WITHOUT_AVX512, narrow)
    monkeypatch.setitem(cost_model.KNOWN, ("Vendor", "25", "Core"), own)
    monkeypatch.setattr(processor, "blas_core", lambda: "Core")
    maker = {"vendor_id": "Vendor", "cpu family": "25"}
    for facts, features, model in (
        ({"flags": "avx2 fma"}, {"AVX512F": True}, narrow),
        ({"flags": "avx2 avx512f"}, {"AVX512F": False}, CostModel()),
        ({}, {"SSE2": True, "AVX512F": False}, narrow),  # a system that shows nothing
        ({}, {"SSE2": True, "AVX512F": True}, CostModel()),
        ({"Features": "asimd"}, {"ASIMD": True, "SSE2": False, "AVX512F": False}, CostModel()),
        ({**maker, "flags": "avx2"}, {}, own),
    ):
        monkeypatch.setattr(processor, "facts", lambda facts=facts: facts)
        monkeypatch.setitem(
            sys.modules, processor.LINKED, SimpleNamespace(__cpu_features__=features)
        )
        assert shipped() == model


def test_a_strip_has_the_lines_that_the_model_says() -> None:
    """On this processor, in a process in which nobody has made the models general."""
    code = (
        "from einloom.backend import cost_model, processor;"
        "from einloom.backend.cpu.kernels.registers import block_size;"
        "print(processor.lacks_avx512(processor.facts()), cost_model.shipped().strip_lines, block_size()[1])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lacks, told, made = found.stdout.split()
    if platform.machine() == "x86_64":
        assert int(told) == int(made) == (1 if lacks == "True" else 3)


def engine(model: CostModel, lhs: Shape, rhs: Shape, axes: Attrs) -> str:
    MODELS.use(model)
    specs = tuple(ArraySpec(np.dtype("f8"), shape) for shape in (lhs, rhs))
    with options(small=SMALL):
        return dot_engine(dot_dims(axes, lhs, rhs), specs)


def test_narrow_strips_are_for_what_they_are_faster_at() -> None:
    """Previously failed: the general model, where registers are half as wide, chose strips for products that
    BLAS takes a third of the time for, and blocks for long sums."""
    plain: Attrs = {"contracting": ((1,), (0,)), "batch": ((), ())}
    many: Attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    apart: Attrs = {"contracting": ((0, 2), (0, 2)), "batch": ((), ())}
    turned: Attrs = {"contracting": ((0, 2), (2, 1)), "batch": ((), ())}
    for lhs, rhs, axes, general, narrow in (
        ((16, 1024), (1024, 1024), plain, "strips", "gemm"),
        ((20, 400), (400, 4000), plain, "strips", "gemm"),
        ((32, 128, 128), (32, 128, 128), many, "strips", "batched gemm"),
        ((112, 112, 112), (112, 112, 112), turned, "blocked", "gemm"),
        ((512, 16), (16, 512), plain, "gemm", "gemm"),
        ((32, 1024), (1024, 32), plain, "strips", "gemm"),
        ((115, 19, 19), (115, 19, 19), apart, "strips", "strips"),
        ((3000, 24), (24, 3000), plain, "strips", "strips"),
    ):
        found = [engine(model, lhs, rhs, axes) for model in (CostModel(), NARROW)]
        assert found == [general, narrow], (lhs, rhs)


def test_one_that_is_kept_is_found() -> None:
    assert MODELS.current == CostModel()
    assert keep(OTHER).name == FILE
    assert MODELS.current == CostModel()  # looked for once
    einloom.clear_caches()
    assert MODELS.current == OTHER
    assert einloom.cache_info()["cost model"].currsize == 1


@pytest.mark.parametrize(
    ("change", "warns"),
    [
        ({"version": 0}, False),
        ({"machine": {"processor": "another", "cpus": 1, "threads": 1}}, False),
        ({"model": {"products": "fast"}}, True),
        ({"model": {"products": -1.0}}, True),
        ({"model": {"products": float("nan")}}, True),
        ({"model": {"speed": 1.0}}, True),
        ({"model": []}, True),
        ({"model": {"edges": [1, 2]}}, True),
        ({"model": {"edges": 4}}, True),
        ({"model": {"edges": [float("inf"), 1, 1]}}, True),
        ({"model": {"products": [1, 2, 3]}}, True),
        ({"model": {"products": True}}, True),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_not(
    change: dict[str, Any], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = keep(OTHER)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    MODELS.clear()
    with caplog.at_level(logging.WARNING, "einloom"):
        assert MODELS.current == CostModel()
    assert bool(caplog.records) == warns


def test_a_garbled_file_is_not_used(folder: Path) -> None:
    (folder / FILE).write_text("{")
    assert MODELS.current == CostModel()


def test_tuning_keeps_and_uses_what_it_measures(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Nothing is timed here: a machine whose products follow the law that is fitted."""

    def seconds(shape: tuple[int, int, int], batch: int, dtype: str = "f8") -> float:
        m, n, k = shape
        a, b, c = (5, 7, 3) if batch > 1 else (20, 30, 2)
        return batch * (m + a) * (n + b) * (k + c) / 2e10

    monkeypatch.setattr(measuring, "_seconds_of_product", seconds)
    monkeypatch.setattr(measuring, "_rate_of_moves", lambda: 3e9)
    monkeypatch.setattr(measuring, "_seconds_in_strips", lambda: measuring.STRIPS**3 / 3e10)
    monkeypatch.setattr(
        measuring, "_seconds_in_blocks", lambda dtype="f8": measuring.SIDE**3 / 1e10
    )
    monkeypatch.setattr(tuning, "_ratios", lambda candidate, model: [0.5, 1.0])
    model = einloom.tune()
    assert MODELS.current == model
    assert model.moves == 3e9
    assert 1.8e10 < model.products < 2e10
    assert model.strips == pytest.approx(3e10 / model.products)
    assert model.blocks == pytest.approx(1e10 / model.products)
    assert model.blocks_single == pytest.approx(1e10 / model.products)  # here as fast as the other
    np.testing.assert_allclose(model.edges, (5, 7, 3), atol=2)
    np.testing.assert_allclose(model.threaded, (20, 30, 2), atol=5)
    MODELS.clear()
    assert MODELS.current == model
    assert [file.name for file in folder.iterdir()] == [FILE]


@pytest.mark.slow  # compiles whatever is timed
def test_tuning_measures() -> None:
    """Products, moves and results of the kernels that are timed, small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SIDE", 64)
        patch.setattr(measuring, "STRIPS", 60)
        patch.setattr(measuring, "WIDE", 24)
        patch.setattr(measuring, "_best", lambda call: call() is None or 1e-3)
        patch.setattr(tuning, "_ratios", lambda candidate, model: [0.5])
        model = einloom.tune(save=False)
    assert all(value > 0 for value in model.figures())
    einloom.clear_caches()
    assert MODELS.current == model  # not kept, but set
    MODELS.use(None)
    assert MODELS.current == CostModel()


def test_what_makes_nothing_sooner_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Group by group, each beside what was taken before; one contraction that takes much longer is enough
    against it. Where none is taken the shipped model stays, and what was kept goes."""
    found = CostModel(products=1e9, edges=(3, 2, 1), stream=1e9, moves=1e9, threads=3)
    monkeypatch.setattr(tuning, "measured", lambda: found)
    asked: list[tuple[CostModel, CostModel]] = []

    def ratios(candidate: CostModel, model: CostModel) -> list[float]:
        asked.append((candidate, model))
        if candidate.edges != model.edges:
            return [0.9, 0.9, 0.95]
        return [0.5, 0.5, 1.2] if candidate.stream != model.stream else [0.99, 1.0]

    monkeypatch.setattr(tuning, "_ratios", ratios)
    taken = shipped()._replace(edges=(3, 2, 1), threaded=found.threaded)
    assert einloom.tune() == MODELS.current == taken
    assert [model for _, model in asked] == [shipped()] * 2 + [taken] * 2
    assert [file.name for file in folder.iterdir()] == [FILE]
    monkeypatch.setattr(tuning, "_ratios", lambda candidate, model: [1.0])
    assert einloom.tune(save=False) == MODELS.current == shipped()
    assert [file.name for file in folder.iterdir()] == [FILE]
    assert einloom.tune() == shipped()
    assert not list(folder.iterdir())


def test_what_is_interrupted_leaves_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(candidate: CostModel, model: CostModel) -> list[float]:
        MODELS.use(candidate)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "measured", lambda: OTHER)
    monkeypatch.setattr(tuning, "_ratios", interrupted)
    with pytest.raises(KeyboardInterrupt):
        einloom.tune()
    assert MODELS.current == shipped()


def test_trials_are_made_by_both_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same contraction, small, by one tree and two models, in turns."""
    small = [
        trial._replace(sizes={label: min(n, 3) for label, n in trial.sizes.items()})
        for trial in tuning.TRIALS
    ]
    monkeypatch.setattr(tuning, "TRIALS", small)
    monkeypatch.setattr(tuning, "SECONDS", 0)
    used: list[CostModel | None] = []
    use = MODELS.use
    monkeypatch.setattr(MODELS, "use", lambda model: (used.append(model), use(model))[1])
    ratios = tuning._ratios(OTHER, CostModel())
    assert used == [OTHER, CostModel()] * len(small)
    assert len(ratios) == len(small)
    assert all(ratio > 0 for ratio in ratios)


def test_plans_follow_the_model() -> None:
    """Where copies cost nothing, one large product is best; where they are dear, loops are."""
    step = Contraction({0: 300, 1: 200, 2: 500, 3: 400}, (), (0, 1), (2,), (3,))
    orders = ((0, 3, 1), (3, 2), (0, 1, 2))
    MODELS.use(CostModel(moves=1e15, copy=1e-12, call=1e-3))
    assert plan_matrices(step, orders).calls == 1
    MODELS.use(CostModel(moves=1e6))
    assert plan_matrices(step, orders).calls == 300


@pytest.mark.parametrize(("side", "is_packed"), [(128, False), (8, True)])
def test_products_of_slices(side: int, is_packed: bool) -> None:
    """A result that would be copied into its order is computed in slices instead, unless it is small: that of
    an operator in the middle, as in an environment of DMRG."""
    sizes = {0: side, 1: side, 2: 5, 3: 2, 4: 5, 5: 2}
    step = Contraction(sizes, (), (0, 1), (2, 3), (4, 5))
    orders = ((4, 5, 0, 1), (4, 2, 3, 5), (0, 3, 1, 2))
    found = plan_matrices(step, orders, CostModel())
    assert found.packed == (False, True, is_packed)
    assert found.calls == (1 if is_packed else 2 * side)
    slow = plan_matrices(step, orders, CostModel(strided=0.3))
    assert slow.packed == (False, True, True)


def test_plans_are_looked_up() -> None:
    sizes = {0: 30, 1: 20, 2: 50}
    step, again = (Contraction(dict(sizes), (), (0,), (2,), (1,)) for _ in range(2))
    orders = ((0, 1), (1, 2), (0, 2))
    einloom.clear_caches()
    assert plan_matrices(step, orders) is plan_matrices(again, orders)
    assert einloom.cache_info()["plans of products"].hits == 1
    other = Contraction(sizes, (), (0,), (2,), (1,), itemsize=4)
    assert plan_matrices(other, orders) is not plan_matrices(step, orders)


def test_predictions() -> None:
    f8 = np.dtype("f8")
    a, b, c = ArraySpec(f8, (30, 40)), ArraySpec(f8, (40, 50)), ArraySpec(f8, (30, 50))
    product = {"contracting": ((1,), (0,)), "batch": ((), ())}
    found = predict("dot_general", product, (a, b), (c,))
    assert found.multiplications == 30 * 40 * 50
    assert found.moved_bytes == 8 * (1200 + 2000 + 1500)
    assert found.copied_bytes == 0
    assert found.seconds > 60000 / CostModel().products
    assert predict("matmul", {}, (a, b), (c,)) == found
    assert predict("transpose", {"perm": (1, 0)}, (a,), (ArraySpec(f8, (40, 30)),)).seconds == 0
    assert predict("add", {}, (a, a), (a,)).moved_bytes == 3 * a.nbytes
    whole = [ArraySpec(np.dtype("i8"), x.shape) for x in (a, b, c)]
    slower = predict("dot_general", product, (whole[0], whole[1]), (whole[2],))
    assert slower.seconds > found.seconds
    terms = {"terms": ((0, 1), (1, 2), (2,)), "output": (0,)}
    three = predict("sum_product", terms, (a, b, ArraySpec(f8, (50,))), (ArraySpec(f8, (30,)),))
    assert three.multiplications == 30 * 40 * 50 * 2


def test_a_matrix_times_a_vector_is_read_once() -> None:
    """Few long rows take as long as many short ones."""
    model = CostModel()
    speeds = [model.speed(rows, 1, 1 << 20, 1) for rows in (1, 3, 100)]
    assert speeds == [model.speed(1, rows, 1 << 20, 1) for rows in (1, 3, 100)] == speeds[:1] * 3
    sizes = (1, 2, 3, 4, 30, 600, 4000)
    for m, n, k in itertools.product(sizes, repeat=3):
        for slow, fast in ((1, n), (m, n), (n, m), (1, m)):  # labels of one element may be loops
            assert model.speed(slow, fast, k, 3) <= model.most_speed(m, n, k) * (1 + 1e-12)


def test_rows_that_lie_pages_apart_cost_more_than_their_bytes() -> None:
    """Small matrices of a large array, written row by row where the batch lies inside of them."""
    sizes = {0: 1100, 1: 12, 2: 12, 3: 12, 4: 12}
    step = Contraction(sizes, (0,), (1, 2), (3,), (4,))
    lhs, rhs = (0, 1, 2, 4), (0, 4, 3)
    near, far = (plan_matrices(step, (lhs, rhs, out)) for out in ((0, 1, 2, 3), (2, 3, 0, 1)))
    assert far.seconds > 1.5 * near.seconds
