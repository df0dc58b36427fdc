"""Each guard of the executable specification is needed."""

from __future__ import annotations

import pytest

from tests.simulation import protocol_model
from tests.simulation.model import run


@pytest.mark.parametrize("guard", ["raise_behind", "direct_tomb", "key_order", "seal_mono"])
def test_without_a_guard_an_invariant_breaks(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_model, "MUTANT", None)
    *_, broken = protocol_model.hunt(guard)
    assert broken


@pytest.mark.long
def test_without_any_one_guard_an_invariant_breaks() -> None:
    assert "111 of 111 guards: the mutant is caught" in run("--all-mutants")
