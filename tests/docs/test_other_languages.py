"""docs/other-languages.md quotes the programs of examples/languages, and its table of outcomes is true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
import pytest
from botocore.validate import validate_parameters
from typer.testing import CliRunner

from tests.docs.test_snippets import ROOT
from tidewheel.cli.main import app
from tidewheel.cli.policies import PAGE, PROGRAMS, VARIABLE
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import id_deliver_at_ms
from tidewheel.model.plain import PlainMessages, read_plain
from tidewheel.model.received import QueuedMessage

TEXT = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
FOLDER = ROOT / "examples" / "languages"
QUOTED: dict[str, str] = dict(
    re.findall(r"^<!-- examples/languages/(\S+) -->\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
)
PACKAGING = {"package.json", "package-lock.json", "pom.xml", "go.mod", "go.sum", "composer.json"}
MOST_LINES = 10
SENT_MS = 1_800_000_000_000


# ---- the programs
def test_the_page_quotes_every_program_as_it_is() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert {name: (FOLDER / name).read_text(encoding="utf-8") for name in files - PACKAGING} == QUOTED


@pytest.mark.parametrize("name", [*PROGRAMS.values(), "receive.mjs"])
def test_a_program_has_ten_lines_beside_its_imports(name: str) -> None:
    text = re.sub(r"^import \(\n.*?^\)$", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [each for each in text.splitlines() if each and not re.match(r"import |package |require |<\?php", each)]
    assert len(lines) <= MOST_LINES


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(clock="real") as opened:
        yield opened


def address(stack: LocalTidewheel, *arguments: str) -> str:
    target = Target(endpoint_url=stack.endpoint_url, region="us-east-1")
    return CliRunner().invoke(app, ["address", *arguments], obj=target).output


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_command_prints_the_address_and_a_languages_program_for_the_topic(
    stack: LocalTidewheel, language: str
) -> None:
    name = stack.client().core.connection.settings.address().rpartition("/")[2]
    here = f"{stack.endpoint_url}/123456789012/{name}"
    arn = f"arn:aws:sqs:us-east-1:123456789012:{name}"
    assert json.loads(address(stack, "--json")) == {"url": here, "arn": arn}
    program = (FOLDER / PROGRAMS[language]).read_text(encoding="utf-8")
    assert program.count("orders") == 1
    told = address(stack, "--language", language, "--topic", "bills")
    assert arn in told and told.endswith(f"\nexport {VARIABLE}={here}\n\n{program.replace('orders', 'bills')}")


def test_a_language_without_a_program_is_refused_with_those_that_have_one() -> None:
    refused = CliRunner().invoke(app, ["address", "--language", "cobol"], obj=Target(region="us-east-1"))
    assert refused.exit_code == 1 and "language='cobol': give one of cli, js, java, go, php" in refused.stderr


# ---- what AWS's services send
def read(body: Any, attributes: Mapping[str, Any] | None = None) -> PlainMessages:
    """Reads a message as ingest does."""
    text = body if isinstance(body, str) else json.dumps(body)
    return read_plain(
        QueuedMessage(id="m", body=text, attributes=attributes or {}, sent_at_ms=SENT_MS, receives=1, queue_arn="arn"),
        None,
    )


def checked(service: str, operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """Checks a request against AWS's service model."""
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    validate_parameters(given, model.input_shape)
    return given


def test_a_rule_makes_an_envelope() -> None:
    [target] = checked("events", "PutTargets", {"Rule": "late", "Targets": json.loads(QUOTED["rule.json"])})["Targets"]
    transformer = target["InputTransformer"]
    filled = transformer["InputTemplate"].replace("<id>", "o-17").replace("<detail>", '{"id": "o-17"}')
    assert transformer["InputPathsMap"].keys() == {"detail", "id"}
    [message] = read(filled).messages
    assert (message.text, message.options and message.options.key) == ('{"id":"o-17"}', "o-17")


def test_a_pipe_makes_an_envelope_of_an_item_of_the_outbox() -> None:
    pipe = checked("pipes", "CreatePipe", json.loads(QUOTED["pipe.json"]))
    item = {"due": {"N": "1800086400"}, "id": {"S": "o-17"}}
    filled = pipe["TargetParameters"]["InputTemplate"]
    paths = {"dynamodb.NewImage.due.N": "1800086400", "eventID": "7de3", "dynamodb.NewImage": json.dumps(item)}
    for path, value in paths.items():
        filled = filled.replace(f"<$.{path}>", value)
    [message] = read(filled).messages
    assert json.loads(message.text) == item and message.options is not None and message.options.key == "7de3"
    assert id_deliver_at_ms(message.id) == SENT_MS + 86_400_000


def test_a_state_of_step_functions_sends_an_envelope() -> None:
    state = json.loads(QUOTED["state.json"])
    body = state["Arguments"]["MessageBody"]
    body["tidewheel"]["key"], body["body"] = "o-17", {"id": "o-17"}
    assert [each.text for each in read(body).messages] == ['{"id":"o-17"}']


def test_the_envelope_of_the_page_has_two_messages() -> None:
    assert [each.text for each in read(QUOTED["many.json"]).messages] == ['{"id":17}', "text"]


# ---- outcomes
VECTORS = {
    "no topic": "no topic",
    "a delay and a time": "two ways of saying when",
    "a bad delay": "a delay that is none",
    "a time without a zone": "a time without a zone",
    "400 years": "400 years",
    "a past time": "a past time stays in the id",
    "a Binary attribute": "a Binary attribute",
    "an unknown `tidewheel.*` name": "an unknown name",
    "names that differ by case": "names that differ by case",
    "an eleventh attribute": "ten attributes beside our header",
    "SNS without raw delivery": "SNS without raw delivery",
    "an envelope with one bad message": "an envelope with one bad message",
}
"""Row of the page's table -> the vector that proves the outcome, in tests/unit/test_plain.py."""
ELSEWHERE = ("an unknown topic", "an envelope that nests too deep")


def test_the_table_says_of_each_row_what_its_vector_says() -> None:
    table = TEXT.partition("| sent | outcome |\n|---|---|\n")[2].partition("\n\n")[0]
    outcomes = dict(tuple(map(str.strip, row.strip("|").split("|"))) for row in table.splitlines())
    vectors = {each["name"]: each for each in json.loads((ROOT / "docs" / "vectors.json").read_text())["messages"]}
    assert outcomes.keys() == {*VECTORS, *ELSEWHERE}
    for row, name in VECTORS.items():
        assert "refused" not in vectors[name] or "refuse" in outcomes[row], row


def test_a_body_beside_attributes_is_never_parsed() -> None:
    deep, topic = "[" * 500_000, {"tidewheel.topic": {"DataType": "String", "StringValue": "orders"}}
    assert [each.text for each in read(deep, topic).messages] == [deep]
