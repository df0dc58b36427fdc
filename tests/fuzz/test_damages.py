"""Random damage of any stored data raises an error of the project's own, and ends no process."""

from __future__ import annotations

import os
import secrets
from collections import Counter

from tests.fuzz.damages import DAMAGE, LIE, Tally, table, troubles, try_all
from tests.fuzz.effort import EXAMPLES
from tests.fuzz.kinds import KINDS, LIES, PLANTED, kind_of
from tests.fuzz.trying import attempt, chance_of

SEED = 7


def test_damage_of_all_that_is_stored_is_an_error_whether_the_checksum_is_right_or_not() -> None:
    seed = secrets.randbelow(2**32) if os.environ.get(EXAMPLES) else SEED
    found = try_all([(DAMAGE, name) for name in KINDS] + [(LIE, name) for name in LIES], 200, seed)
    assert not troubles(found, seed), "\n".join(troubles(found, seed))
    for (way, name), tally in found.items():
        assert tally.tried == 200
        assert tally.errors + tally.equal + tally.read == 200
        assert tally.errors > 50, f"{name} was damaged, and hardly ever refused"
        if way == DAMAGE and kind_of(name).checked:
            assert tally.read == 0
    assert "deaths" in table(found)


def test_a_death_and_a_hang_are_seen_and_blamed_and_what_comes_behind_is_tried() -> None:
    what = [(DAMAGE, name) for name in PLANTED]
    found = try_all([*what, (DAMAGE, "pack")], 12, SEED, hangs_after_s=5)
    died, hung = (found[each] for each in what)
    assert [tally.tried for tally in found.values()] == [12, 12, 12]
    assert died.deaths and hung.deaths and not died.failures
    assert "ended with -6" in died.deaths[0][1] and "hung" in hung.deaths[0][1]
    assert died.equal + died.read + len(died.deaths) == hung.equal + hung.read + len(hung.deaths) == 12
    assert f"python -m tests.fuzz.trying 7 damage 'dies' {died.deaths[0][0]} " in troubles(found, SEED)[0]
    assert found[DAMAGE, "pack"].errors + found[DAMAGE, "pack"].equal == 12


def test_the_same_number_is_the_same_damage_in_any_process() -> None:
    found = try_all([(DAMAGE, "pack")], 60, SEED, workers=2)[DAMAGE, "pack"]
    here = Counter(attempt(kind_of("pack"), DAMAGE, chance_of(SEED, DAMAGE, "pack", number)) for number in range(60))
    assert found == Tally(tried=60, errors=here["error"], equal=here["equal"])
