"""A decoder returns a usable value, or raises an error of the project's own, for any input."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.fuzz.decoders import DECODERS
from tests.fuzz.effort import effort, tried, try_one


@pytest.mark.parametrize("name", DECODERS)
def test_whatever_comes_is_read_or_refused_with_an_error_of_our_own(name: str) -> None:
    decoder = DECODERS[name]

    @effort(40)
    @given(decoder.inputs)
    def attack(value: object) -> None:
        try_one(name, decoder.decode, value)

    attack()
    assert tried[name] >= 30
    if name != "Celery message":  # what is wrong with it, the worker says
        assert 0 < tried[f"refused {name}"] <= tried[name]
