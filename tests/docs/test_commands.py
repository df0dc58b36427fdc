"""Every documented command is valid. Own commands are parsed and run, commands of AWS and the CDK exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from datetime import UTC, datetime
from functools import cache
from typing import Any

import botocore.session
import jmespath
import pytest
from botocore import xform_name
from botocore.model import OperationModel, Shape
from typer.main import get_command
from typer.testing import CliRunner

from infra.deploy import _parser as deploy_parser
from tests.docs.shell import PLACE, Command, commands
from tests.docs.test_snippets import DOCUMENTS, ROOT
from tests.infra.test_client_permissions import damage
from tidewheel.cli.main import FIRST, app
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel

AWS_GLOBALS = {
    "--cli-binary-format",
    "--cli-input-json", "--endpoint-url", "--no-cli-pager", "--no-paginate", "--output", "--profile", "--query",
    "--region",
}  # fmt: skip
AWS_SWITCHES = {"--no-cli-pager", "--no-paginate"}
AWS_OWN = {
    ("s3", "cp"): {"--recursive", "--dryrun"},
    ("s3", "ls"): {"--recursive", "--summarize", "--human-readable"},
    ("s3", "mv"): {"--recursive", "--dryrun"},
    ("s3", "rb"): {"--force"},
    ("s3", "rm"): {"--recursive", "--dryrun"},
    ("s3", "sync"): {"--delete", "--dryrun"},
    ("logs", "tail"): {"--follow", "--since", "--format", "--filter-pattern"},
}
"""Commands of AWS's command line that are no operation of a service, with their options (AWS CLI 2, reference)."""
AWS_SERVICES = {"s3api": "s3"}
"""Services that AWS's command line calls something else than botocore does."""
AWS_RENAMED = {("Subscribe", "--notification-endpoint"): "--endpoint"}
"""Parameters that have another name on AWS's command line, since that has an option of theirs (`argrename.py`)."""
CDK = "node_modules/.bin/cdk"
CDK_OPTIONS = {
    "bootstrap": {
        "--profile", "--context", "--trust", "--cloudformation-execution-policies",
        "--bootstrap-customer-key", "--bootstrap-kms-key-id",
    },
    "deploy": {
        "--all", "--context", "--import-existing-resources", "--no-rollback", "--outputs-file", "--parameters",
        "--profile", "--require-approval",
        "--rollback", "--output", "--app", "--progress", "--hotswap", "--method", "--change-set-name",
    },
    "destroy": {"--all", "--context", "--force", "--profile"},
    "diff": {"--context", "--fail", "--profile"},
    "import": {"--context", "--profile", "--resource-mapping"},
    "list": {"--context", "--profile"},
    "rollback": {"--context", "--force", "--profile", "--orphan"},
    "synth": {"--context", "--profile", "--quiet"},
}  # fmt: skip
"""Options of the CDK's command line, version 2 (its reference, `cdk <command> --help`)."""
OPERATIONS = (
    "capacity", "deploy", "disaster-recovery", "limits", "monitoring", "operations", "runbook", "security", "upgrading",
)  # fmt: skip
"""Documents whose commands are run: whoever reads them is in no mood to find out which word is wrong."""
ON_SPARK = {"merge", "rebuild", "import"}
"""Commands that start Spark: `tests/spark` runs them."""


NOT_OURS = (
    ".venv/bin/python", "aws", "cd", "cdk", "date", "docker", "export", "git", "node", "npm", "npx", "pip", "python",
)  # fmt: skip
"""Commands of shell blocks that this project does not define."""
MENTIONED = ("Exit", "MissingParameter", "NoArgsIsHelpError", "UnfinishedCommand")
"""Errors of a command that prose names without all that it takes; --help is an Exit."""


_tree = cache(get_command)


class UnfinishedCommand(Exception):
    """A command group was given without a command."""


def ids(command: Command) -> str:
    return str(command)


# ---- ours


@pytest.mark.parametrize("command", commands("tidewheel"), ids=ids)
def test_a_tidewheel_command_exists_with_its_options(command: Command) -> None:
    try:
        _check_ours([word for word in command.words[1:] if word != "..."])
    except Exception as error:  # typer has a copy of click of its own
        mentioned = command.line is None and type(error).__name__ in MENTIONED
        if not mentioned:
            raise


def test_the_command_alone_says_what_to_do_first_with_commands_that_exist() -> None:
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, done.output) == (0, FIRST)
    named = [shlex.split(line.partition("tidewheel ")[2]) for line in FIRST.splitlines()[1:] if "tidewheel " in line]
    assert len(named) == 4 and named.pop() == ["--help"]
    for words in named:
        _check_ours(words)
        if words[0] == "docs":
            assert CliRunner().invoke(app, words).exit_code == 0


def _check_ours(words: list[str]) -> None:
    """Raises an error unless these are a command and what it takes."""
    _parse(_tree(app), words)


def _parse(command: Any, arguments: list[str]) -> None:
    context = command.make_context("tidewheel", list(arguments))
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest and context.command.invoke_without_command:
            return
        if not rest:
            raise UnfinishedCommand(command)
        name, command, arguments = context.command.resolve_command(context, rest)
        context = command.make_context(name, list(arguments), parent=context)


@pytest.mark.parametrize("name", [path.stem for path in DOCUMENTS if path.stem in OPERATIONS])
def test_the_tidewheel_commands_of_an_operations_document_run_in_their_order(name: str) -> None:
    typed = [each for each in commands("tidewheel", quoted=False) if each.document.stem == name]
    typed = [each for each in typed if not ON_SPARK & set(each.words)]
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        tw = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        sent = tw.send("orders", "hello", delay="2h")
        stack.advance(minutes=10)
        target = Target(stack=stack.stack_name, endpoint_url=stack.endpoint_url, region="us-east-1")
        filled = {PLACE: sent.id, "TOPIC": "orders", "SUBSCRIPTION": "billing"}
        for command in typed:
            words = [filled.get(word, word) for word in command.words[1:]]
            if words[:2] == ["damaged", "restore"]:
                damage(stack, "orders", "billing", 0)
                words[-1] = "billing:0"
            if "--stack" in words:
                words[words.index("--stack") + 1] = stack.stack_name
            if "--watch" in words:
                continue  # it never ends
            if {"deploy", "destroy"} & set(words):
                continue  # tests/deploy
            done = CliRunner().invoke(app, words, obj=target, input="y\n")
            assert done.exit_code == 0, f"{command}\n{done.output}"


@pytest.mark.parametrize("command", [*commands("python -m"), *commands(".venv/bin/python -m")], ids=ids)
def test_a_python_module_that_is_run_exists(command: Command) -> None:
    module = command.words[2]
    assert module in ("pip", "venv", "pytest") or importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("command", commands("make"), ids=ids)
def test_a_make_target_exists(command: Command) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word for word in command.words[1:] if "=" not in word} <= targets


def test_every_command_in_a_shell_snippet_is_known() -> None:
    for command in commands("", quoted=False):
        assert command.words[0].rpartition("/")[2] in ("make", "tidewheel", *NOT_OURS), command


# ---- AWS's


@pytest.mark.parametrize("command", commands("aws"), ids=ids)
def test_an_aws_command_exists_with_its_parameters(command: Command) -> None:
    check_aws(command)


def check_aws(command: Command) -> None:
    """Checks a command's operation, parameters, enumerations, JSON and queries against AWS's service models."""
    given = _options(command.words[1:])
    service, operation = given.positional[:2]
    query = given.values.get("--query")
    if query is not None:
        jmespath.compile(query)
    names = given.values.keys() - AWS_GLOBALS
    if (service, operation) in AWS_OWN:
        assert names <= AWS_OWN[service, operation]
    elif operation == "wait":
        assert xform_name(given.positional[2].title().replace("-", "")) in _waiters(service)
    else:
        assert len(given.positional) == 2, given.positional
        _check_operation(command, _operation(service, operation), {name: given.values[name] for name in names})


class _Options:
    """A command's leading words and options."""

    def __init__(self) -> None:
        self.positional: list[str] = []
        self.values: dict[str, str] = {}


def _options(words: tuple[str, ...]) -> _Options:
    found, name = _Options(), ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            found.values[name] = value
        elif name and name not in AWS_SWITCHES:
            found.values[name] = f"{found.values[name]} {word}".strip()
        else:
            found.positional.append(word)
    return found


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(AWS_SERVICES.get(service, service))


@cache
def _waiters(service: str) -> set[str]:
    session = botocore.session.get_session()
    waiters = session.get_component("data_loader").load_service_model(AWS_SERVICES.get(service, service), "waiters-2")
    return {xform_name(name) for name in waiters["waiters"]}


def _operation(service: str, operation: str) -> OperationModel:
    names = {xform_name(name, "-"): name for name in _model(service).operation_names}
    assert operation in names, f"aws {service} has no {operation}"
    return _model(service).operation_model(names[operation])  # type: ignore[no-any-return]


def _check_operation(command: Command, operation: OperationModel, given: dict[str, str]) -> None:
    shape = operation.input_shape
    members = {f"--{xform_name(name, '-')}": member for name, member in (shape.members if shape else {}).items()}
    required = {f"--{xform_name(name, '-')}" for name in (shape.required_members if shape else [])}
    switches = {name.replace("--", "--no-", 1): member for name, member in members.items() if _is_switch(member)}
    for name, value in given.items():
        member = members.get(AWS_RENAMED.get((operation.name, name), name)) or switches.get(name)
        assert member is not None, f"{operation.name} has no {name}"
        _check_value(name, member, value)
    if command.line is not None:
        positive = {name.replace("--no-", "--", 1) if name in switches else name for name in given}
        assert required <= positive, f"{operation.name} needs {sorted(required - positive)}"


def _is_switch(member: Shape) -> bool:
    return member.type_name == "boolean"


def _check_value(name: str, member: Shape, value: str) -> None:
    """Checks a value as far as possible before placeholders are filled in."""
    if value[:1] in ("{", "["):
        json.loads(value)
    if _is_switch(member):
        assert value == "", f"{name} is a switch"
        return
    assert value, f"{name} has no value"
    if getattr(member, "enum", None) and PLACE not in value:
        assert value in member.enum, f"{name}: {value} is none of {member.enum}"
    if member.type_name == "structure" and "=" in value:
        fields = set(re.findall(r"(?:^|,)([A-Za-z]\w*)=", value))
        assert fields <= set(member.members), f"{name}: {fields}"
    if member.type_name in ("integer", "long") and PLACE not in value:
        int(value)


# ---- the CDK's


@pytest.mark.parametrize("command", [*commands(CDK), *commands("cdk")], ids=ids)
def test_a_cdk_command_exists_with_its_options(command: Command) -> None:
    words = command.words[1:]
    if command.line is None and not words:
        return  # the tool itself is meant
    name = words[0]
    assert name in CDK_OPTIONS, command
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= CDK_OPTIONS[name]
    for context in (words[i + 1] for i, word in enumerate(words) if word == "--context"):
        assert re.match(r"(environment|stack|nag)=", context), context


def test_the_smoke_test_deploys_proves_and_destroys_with_options_that_exist() -> None:
    recipe = re.search(r"^aws-smoke:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    for words in re.findall(r"\$\(DEPLOY\) ([^\n\"&]*)", recipe[1]):
        options = deploy_parser().parse_args(words.replace("$(ARGS)", "--yes").split())
        assert (options.environment, options.stack, options.yes) == ("smoke", "$$stack", True)
    _check_ours(["--stack", "x", "prove", "--yes"])


# ---- the test itself


@pytest.mark.parametrize(
    "text",
    [
        "aws sqs delete-queues --queue-url x",
        "aws sqs delete-queue --queue-name x",
        "aws sqs delete-queue",
        "aws sqs delete-queue --queue-url",
        "aws lambda update-event-source-mapping --uuid x --no-enabled yes",
        "aws dynamodb restore-table-to-point-in-time --target-table-name x --use-latest-restorable-time 1",
        "aws dynamodb update-continuous-backups --table-name x --point-in-time-recovery-specification Enabled=true",
        "aws cloudwatch describe-alarms --state-value BROKEN",
        "aws sqs list-queues --query 'QueueUrls[?'",
        "aws s3 rm s3://x --force",
        "aws dynamodb wait table-exist --table-name x",
        "aws sqs send-message --queue-url x --message-body b --message-attributes '{'",
    ],
)
def test_a_wrong_aws_command_is_found(text: str) -> None:
    with pytest.raises((AssertionError, jmespath.exceptions.ParseError, json.JSONDecodeError)):
        check_aws(Command(document=ROOT / "README.md", line=1, words=tuple(shlex.split(text))))
