"""The stack is synthesized once; the tests read its template."""

from __future__ import annotations

from typing import Any

import pytest

from infra.local_template import Template, synthesize


@pytest.fixture(scope="session")
def template() -> Template:
    """The development stack as the CDK writes it."""
    return synthesize()


@pytest.fixture(scope="session")
def stack(template: Template) -> StackTemplate:
    """The same, with the questions that the tests ask."""
    return StackTemplate(template)


class StackTemplate:
    """A synthesized template: its resources by type and by the start of their logical ids."""

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
        """The properties of the one resource of a type whose logical id is the prefix and a hash."""
        [found] = [p for id_, p in self.of_type(type_).items() if not prefix or id_[:-8] == prefix]
        return found

    def resource(self, type_: str) -> dict[str, Any]:
        """The one resource of a type, whole."""
        [found] = [resource for resource in self._resources.values() if resource["Type"] == type_]
        return found

    def functions(self) -> dict[str, dict[str, Any]]:
        """The functions' properties, by the name of the handler's folder."""
        return {p["Handler"].split(".")[1]: p for p in self.of_type("AWS::Lambda::Function").values()}

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The Glue jobs' properties, by the script that they run."""
        return {p["DefaultArguments"]["--tidewheel-job"]: p for p in self.of_type("AWS::Glue::Job").values()}

    def mappings(self) -> dict[str, dict[str, Any]]:
        """The event source mappings' properties, by logical id of the queue less its hash."""
        return {
            p["EventSourceArn"]["Fn::GetAtt"][0][:-8]: p
            for p in self.of_type("AWS::Lambda::EventSourceMapping").values()
        }

    def statements(self, role: str) -> list[dict[str, Any]]:
        """What a role (by logical id less its hash) is allowed."""
        policy = self.one("AWS::IAM::Policy", f"{role}DefaultPolicy")
        statements: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
        return statements

    def actions(self, role: str, service: str) -> set[str]:
        """The actions on a service that a role is allowed, without the service's name."""
        return {
            action.split(":")[1]
            for statement in self.statements(role)
            for action in as_list(statement["Action"])
            if action.startswith(f"{service}:")
        }

    def resources(self, role: str, action: str) -> list[Any]:
        """What a role is allowed an action on."""
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
    """One or many, as CloudFormation has it, always as many."""
    return value if isinstance(value, list) else [value]
