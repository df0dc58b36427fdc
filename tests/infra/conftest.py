"""Fixtures of the infrastructure tests, which share one synthesized stack."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.variants import Template, template_of


@pytest.fixture(scope="session")
def template() -> Template:
    """The synthesized template of the development stack."""
    return template_of("development")


@pytest.fixture(scope="session")
def stack(template: Template) -> StackTemplate:
    """The development stack's template with queries for tests."""
    return StackTemplate(template)


class StackTemplate:
    """Queries a synthesized template by resource type and logical id."""

    def __init__(self, template: Template) -> None:
        self._resources: dict[str, dict[str, Any]] = template["Resources"]

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        """The properties of all resources of a type, by logical id."""
        return {
            id_: resource.get("Properties", {})
            for id_, resource in self._resources.items()
            if resource["Type"] == type_
        }

    def one(self, type_: str, prefix: str = "") -> dict[str, Any]:
        """Returns the properties of the single resource of a type with this logical id, less the hash."""
        [found] = [p for id_, p in self.of_type(type_).items() if not prefix or id_[:-8] == prefix]
        return found

    def resource(self, type_: str) -> dict[str, Any]:
        """Returns the whole definition of the single resource of a type."""
        [found] = [resource for resource in self._resources.values() if resource["Type"] == type_]
        return found

    def functions(self) -> dict[str, dict[str, Any]]:
        """The functions' properties, by the name of the handler's folder."""
        return {p["Handler"].split(".")[1]: p for p in self.of_type("AWS::Lambda::Function").values()}

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Returns the Glue jobs' properties by script name."""
        return {p["DefaultArguments"]["--tidewheel-job"]: p for p in self.of_type("AWS::Glue::Job").values()}

    def mappings(self) -> dict[str, dict[str, Any]]:
        """Returns the event source mappings' properties by the queue's logical id, less the hash."""
        return {
            p["EventSourceArn"]["Fn::GetAtt"][0][:-8]: p
            for p in self.of_type("AWS::Lambda::EventSourceMapping").values()
        }

    def statements(self, role: str) -> list[dict[str, Any]]:
        """Returns the policy statements of a role, given its logical id less the hash."""
        policy = self.one("AWS::IAM::Policy", f"{role}DefaultPolicy")
        statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
        return statements

    def actions(self, role: str, service: str) -> set[str]:
        """Returns the actions of a service allowed to a role, without the service prefix."""
        return {
            action.split(":")[1]
            for statement in self.statements(role)
            for action in as_list(statement["Action"])
            if action.startswith(f"{service}:")
        }

    def resources(self, role: str, action: str) -> list[Any]:
        """Returns the resources on which a role may do an action."""
        return [
            resource
            for statement in self.statements(role)
            if action in as_list(statement["Action"])
            for resource in as_list(statement["Resource"])
        ]

    def services(self, role: str) -> set[str]:
        """The services of which a role is allowed anything."""
        return {action.split(":")[0] for statement in self.statements(role) for action in as_list(statement["Action"])}


def as_list(value: Any) -> list[Any]:
    """Returns a value as a list, since CloudFormation also accepts a single element."""
    return value if isinstance(value, list) else [value]
