"""A decoder returns a usable value, or raises an error of the project's own, for any input."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.fuzz.decoders import DECODERS
from tests.fuzz.effort import effort, tried, try_one


def _attack(name: str, examples: int) -> None:
    decoder = DECODERS[name]

    @effort(examples)
    @given(decoder.inputs)
    def attack(value: object) -> None:
        try_one(name, decoder.decode, value)

    attack()
    assert tried[name] >= 30
    if name != "Celery message":  # what is wrong with it, the worker says
        assert 0 < tried[f"refused {name}"] <= tried[name]


@pytest.mark.parametrize("name", DECODERS)
def test_whatever_comes_is_read_or_refused_with_an_error_of_our_own(name: str) -> None:
    _attack(name, 40)


@pytest.mark.nightly
@pytest.mark.parametrize("name", DECODERS)
def test_of_many_inputs_each_is_read_or_refused_with_an_error_of_our_own(name: str) -> None:
    _attack(name, 2_000)
