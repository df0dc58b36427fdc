"""Installs each extra in an empty environment outside the checkout, and checks the documented features."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.packaging.installed import Environments, run, snippets
from tidewheel.local import LocalTidewheel

KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}
SENDER = """
import importlib.util, sys
from tidewheel import Tidewheel

for name in ("aws_cdk", "aws_lambda_powertools", "moto", "numpy", "pyarrow", "pyspark", "rich", "typer"):
    assert importlib.util.find_spec(name) is None, name

tw = Tidewheel(sys.argv[1], endpoint_url=sys.argv[2])
sent = [tw.send("orders", {"number": number}, delay="1h") for number in range(3)]
tw.cancel("orders", sent[1].id)
print(*(each.id for each in sent))
"""
MISSING = {
    "from tidewheel.local import LocalTidewheel": "local",
    "from tidewheel.local import MemoryTidewheel": "lambda",
    "import tidewheel.cdk": "cdk",
    "from tidewheel.cdk.service import TidewheelService": "cdk",
    "import tidewheel.jobs": "local",
    "import tidewheel.spark": "spark",
    "from tidewheel.spark.glue import import_on_spark": "spark",
    "from tidewheel.jobs.importing.driver import import_messages": "local",
    "import tidewheel.integrations.celery": "celery",
    "import tidewheel.integrations.dramatiq": "dramatiq",
    "Tidewheel(storage=MemoryService.at(SystemClock())).peek('orders')": "read",
}
"""What needs an extra, and which."""
IMPORTER = """
import json, sys
from tidewheel import ExtraMissing, Tidewheel
from tidewheel.clock import SystemClock
from tidewheel.memory import MemoryService

said = {}
for statement in json.loads(sys.argv[1]):
    try:
        exec(statement)
    except ExtraMissing as error:
        assert isinstance(error, ImportError)
        said[statement] = [error.extra, str(error)]
print(json.dumps(said))
"""
FIXTURE = """
def test_of_theirs():
    pass

def test_with_the_fixture(local_tidewheel):
    pass
"""
GOOD = """
from datetime import timedelta

from tidewheel import AsyncTidewheel, Message, Tidewheel, __version__
from tidewheel.local import LocalTidewheel, MemoryTidewheel

version: str = __version__
tw = Tidewheel()
tw.create_topic("orders", slot_s=60, retention_days=1, delay_levels=[1, 5], max_waiting=None)
tw.update_topic("orders", max_send_rate=10)
tw.send_many("orders", [Message(body="hello", delay=timedelta(days=3))])
with LocalTidewheel(slot_s=1, lookahead_s=4) as stack:
    stack.client().create_topic("orders")


async def change(tw: AsyncTidewheel) -> None:
    await tw.update_topic("orders", retention_days=1)
"""
BAD = """
from tidewheel import AsyncTidewheel, Tidewheel
from tidewheel import Tidewhel
from tidewheel.local import LocalTidewhel

tw = Tidewheel()
tw.create_topic("orders", slot=60)
tw.create_topic("orders", slot_s="60")
tw.update_topic("orders", slot_s=60)
LocalTidewheel(slots=60)
LocalTidewheel(slot_s=60)


async def change(tw: AsyncTidewheel) -> None:
    await tw.update_topic("orders", retention=3600)
    await tw.create_topic("orders", slot=60)
""".replace("import LocalTidewhel\n", "import LocalTidewhel, LocalTidewheel\n")
WRONG = {
    3: 'Module "tidewheel" has no attribute "Tidewhel"',
    4: 'Module "tidewheel.local" has no attribute "LocalTidewhel"',
    7: 'Unexpected keyword argument "slot" for "create_topic"',
    8: 'Argument "slot_s" to "create_topic"',
    9: 'Unexpected keyword argument "slot_s" for "update_topic"',
    10: 'Unexpected keyword argument "slots" for "LocalTidewheel"',
    15: 'Unexpected keyword argument "retention"; did you mean "retention_days"?',
    16: 'Unexpected keyword argument "slot"; did you mean "slot_s"?',
}
"""Line of BAD -> what mypy says."""


# ---- the SDK alone


def test_the_client_alone_sends_and_cancels(environments: Environments, tmp_path: Path) -> None:
    # The client is a process of its own: its clock is the machine's.
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        sent = environments().python(SENDER, tmp_path, stack.stack_name, stack.endpoint_url, **KEYS).split()
        stack.advance(days=1)
        received = {message.id: message.json()["number"] for message in stack.receive("orders", "billing")}
    assert len(sent) == 3
    assert received == {sent[0]: 0, sent[2]: 2}


def test_every_public_name_is_in_the_wheel(environments: Environments, tmp_path: Path) -> None:
    program = "import tidewheel; from tidewheel import *; print(tidewheel.__file__, Tidewheel.__name__, __version__)"
    file, name, version = environments().python(program, tmp_path).split()
    assert Path(file).is_relative_to(environments().programs.parent)
    assert (name, version) == ("Tidewheel", "0.1.0")


def test_what_needs_an_extra_says_which(environments: Environments, tmp_path: Path) -> None:
    said = json.loads(environments().python(IMPORTER, tmp_path, json.dumps(list(MISSING))))
    assert {statement: extra for statement, (extra, _) in said.items()} == MISSING
    for extra, text in said.values():
        assert (
            text.endswith(f"pip install 'tidewheel[{extra}]', or in a clone '.[{extra}]'") and "No module named" in text
        )


def test_the_command_without_its_extra_says_what_to_install(environments: Environments, tmp_path: Path) -> None:
    said = run([environments().programs / "tidewheel", "--version"], tmp_path, code=1)
    assert said.startswith("tidewheel: the command line needs more packages (No module named '")
    assert said.endswith("pip install 'tidewheel[cli]', or in a clone '.[cli]'\n") and said.count("\n") == 1


def test_the_pytest_plugin_without_its_extra_disturbs_only_who_asks_for_it(
    environments: Environments, tmp_path: Path
) -> None:
    (tmp_path / "test_theirs.py").write_text(FIXTURE)
    said = run([environments("", "mypy", "pytest").programs / "pytest", "-p", "no:cacheprovider"], tmp_path, code=1)
    assert "1 passed, 1 error" in said
    assert "ExtraMissing" in said and "pip install 'tidewheel[local]'" in said


@pytest.mark.long  # mypy reads all that the client needs: half a minute and more
def test_type_checkers_find_a_name_or_a_setting_that_does_not_exist(environments: Environments, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    mypy = environments("", "mypy", "pytest").programs / "mypy"
    said = run([mypy, "--strict", "good.py", "bad.py"], tmp_path, code=1)
    found = {int(line): text for line, text in re.findall(r"^bad\.py:(\d+): error: (.*)$", said, re.MULTILINE)}
    assert set(found) == set(WRONG), said
    assert [line for line, text in WRONG.items() if text not in found[line]] == [], said
    assert "good.py" not in said


# ---- single extras


@pytest.mark.parametrize("name", ["celery", "dramatiq"])
def test_an_integration_loads_with_its_extra(environments: Environments, tmp_path: Path, name: str) -> None:
    environments(f"[{name}]").python(f"import tidewheel.integrations.{name}", tmp_path)


def test_the_service_in_memory_needs_the_extra_lambda_only(environments: Environments, tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text("\n\n".join(snippets("README.md", "examples/quickstart.py")))
    assert "1 passed" in environments("[lambda]", "pytest").pytest(tmp_path)


# ---- the local runtime


def test_the_quickstart_runs(environments: Environments, tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text("\n\n".join(snippets("README.md", "examples/quickstart.py")))
    assert "1 passed" in environments("[local]", "pytest").pytest(tmp_path)


def test_the_tests_of_the_page_on_the_local_runtime_pass(environments: Environments, tmp_path: Path) -> None:
    (tmp_path / "test_reminders.py").write_text("\n\n".join(snippets("docs/local.md", "examples/local_test.py")))
    assert "1 passed" in environments("[local]", "pytest").pytest(tmp_path)


@pytest.fixture
def served(environments: Environments, tmp_path: Path) -> Iterator[str]:
    """The address at which `tidewheel dev` serves the README's topic."""
    tidewheel = environments("[local]", "pytest").programs / "tidewheel"
    command = [str(tidewheel), "dev", "--topic", "orders:billing", "--port", "0", "--console-port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None and up.stderr is not None
        try:
            said = up.stdout.readline()
            assert said, up.stderr.read()
            yield json.loads(said)["endpoint"]
        finally:
            up.terminate()


def test_the_commands_of_the_readme_send_and_receive(served: str, environments: Environments, tmp_path: Path) -> None:
    tidewheel = environments("[local]", "pytest").programs / "tidewheel"
    variables = {**KEYS, "AWS_ENDPOINT_URL": served, "COLUMNS": "200"}
    run([tidewheel, "send", "orders", "hello", "--delay", "2s"], tmp_path, **variables)
    assert "hello" in run([tidewheel, "receive", "orders", "billing", "--wait", "20"], tmp_path, **variables)


def test_the_pages_of_the_documentation_come_with_the_wheel(environments: Environments, tmp_path: Path) -> None:
    tidewheel = environments("[local]", "pytest").programs / "tidewheel"
    assert "\nrunbook  " in re.sub(" +", "  ", run([tidewheel, "docs"], tmp_path))
    page = run([tidewheel, "docs", "docs/runbook.md#dead-letters"], tmp_path)
    assert page.startswith("## Dead letters\n") and page.count("\n## ") == 0 and "**Do**" in page
    samples = "from tidewheel.local import replay; print(len(replay.read_samples(replay.packaged_samples())))"
    assert int(environments("[local]", "pytest").python(samples, tmp_path)) > 1000


# ---- Imports


def test_the_page_on_imports_imports_without_spark_or_java(environments: Environments, tmp_path: Path) -> None:
    [example] = snippets("docs/import.md", "examples/import_messages.py")
    said = environments("[local]", "pytest").python(example, tmp_path)
    lines = [line for line in said.splitlines() if line.strip()]
    assert lines == ["2 {'due is missing': 1}", "0 3", "[{'customer': 'c-1'}, {'customer': 'c-2'}]"]
