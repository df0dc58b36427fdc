"""The environments of this app, as data."""

from __future__ import annotations

from tidewheel.cdk.environment import Environment


class UnknownEnvironment(Exception):
    """The context names an environment that does not exist: see `infra/environments.py` for the names."""


ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment.development(),
        Environment.production(),
        # What `make aws-smoke` deploys: it leaves nothing behind, and has alarms and a key.
        Environment.development(name="smoke", alarms=True, own_key=True),
    )
}


def environment_named(name: str) -> Environment:
    """Returns the environment with this name.

    Raises:
        UnknownEnvironment: There is none.
    """
    if name not in ENVIRONMENTS:
        known = ", ".join(sorted(ENVIRONMENTS))
        raise UnknownEnvironment(f"There is no environment {name!r}; choose one of: {known}.")
    return ENVIRONMENTS[name]
