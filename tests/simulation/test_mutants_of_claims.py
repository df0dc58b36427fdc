"""Without any one guard of claims a small world breaks a promise. With all guards no world does."""

from tests.simulation.guard import guard_tests
from tests.simulation.guards.claims import GUARDS

test_without_a_guard_some_schedule_breaks_a_promise, test_with_all_guards_every_schedule_keeps_every_promise = (
    guard_tests(GUARDS)
)
