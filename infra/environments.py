"""The environments of this app, as data."""

from __future__ import annotations

from aws_cdk import RemovalPolicy

from tidewheel.cdk.environment import Environment


class UnknownEnvironment(Exception):
    """The context names an environment that does not exist: see `infra/environments.py` for the names."""


ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment(name="development", removal_policy=RemovalPolicy.DESTROY),
        Environment(name="production", removal_policy=RemovalPolicy.RETAIN),
    )
}


def environment_named(name: str) -> Environment:
    """Return the environment of that name.

    Raises:
        UnknownEnvironment: There is none.
    """
    if name not in ENVIRONMENTS:
        known = ", ".join(sorted(ENVIRONMENTS))
        raise UnknownEnvironment(f"There is no environment {name!r}; choose one of: {known}.")
    return ENVIRONMENTS[name]
