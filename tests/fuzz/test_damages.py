"""Random damage of any stored data raises an error of the project's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import hostile
from tests.fuzz.effort import effort, many, tried
from tests.fuzz.kinds import KINDS, kind_of
from tidewheel.errors import TidewheelError


def _damage_is_noticed(name: str, count: int) -> None:
    kind, refused = kind_of(name), []

    @effort(count)
    @given(st.sampled_from(kind.good).flatmap(lambda good: st.tuples(st.just(good), hostile.damaged([good]))))
    def damage(stored: tuple[bytes, bytes]) -> None:
        good, bad = stored
        tried[f"damaged {name}"] += 1
        try:
            found = kind.read(bad)
        except TidewheelError:
            refused.append(bad)
            return
        assert not kind.checked or bad == good or found == kind.read(good), f"damage was not noticed: {bad!r}"

    damage()
    assert len(refused) > many(count) // 4, f"{name} was damaged, and hardly ever refused"


@pytest.mark.parametrize("name", KINDS)
def test_damage_of_stored_bytes_is_noticed(name: str) -> None:
    _damage_is_noticed(name, 60)


@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_much_damage_of_stored_bytes_is_noticed(name: str) -> None:
    _damage_is_noticed(name, 3_000)
