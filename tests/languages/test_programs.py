"""The programs of docs/other-languages.md send to the local stack, and receive from it, with AWS's SDKs.

A language without its SDK is skipped: `python -m tests.languages js java go` fetches them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.languages.sdks import PROGRAMS, folder
from tidewheel.cli.policies import VARIABLE
from tidewheel.local import LocalTidewheel

LANGUAGES = ("js", "java", "go", "php", "cli")
INTERPRETERS = {"js": "node", "java": "java", "go": None, "php": "php", "cli": "aws"}


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel() as opened:
        opened.client().create_topic("orders")
        opened.client().create_subscription("orders", "billing")
        yield opened


def here(stack: LocalTidewheel, url: str) -> str:
    """A queue's URL at the local endpoint."""
    return f"{stack.endpoint_url}{urlsplit(url).path}"


def prepared(language: str, place: Path) -> list[str]:
    """Puts a language's programs and SDK into a folder. Returns the command that sends."""
    interpreter = INTERPRETERS[language]
    if interpreter is not None and shutil.which(interpreter) is None:
        pytest.skip(f"{language}: no {interpreter} on the PATH")
    if language == "cli":
        local = 'aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }'
        return ["bash", "-c", f"{local}; . {PROGRAMS / 'send.sh'}"]
    sdk = folder(language)
    if not sdk.is_dir():
        pytest.skip(f"{language}: no SDK; python -m tests.languages {language}")
    for name, beside in (("send.mjs", "node_modules"), ("receive.mjs", "node_modules"), ("send.php", "vendor")):
        shutil.copy(PROGRAMS / name, place)
        if (sdk / beside).is_dir() and not (place / beside).exists():
            (place / beside).symlink_to(sdk / beside)
    return {
        "js": ["node", "send.mjs"],
        "java": ["java", "-cp", f"{sdk / 'jars'}/*", str(PROGRAMS / "Send.java")],
        "go": [str(sdk / "send")],
        "php": ["php", "send.php"],
    }[language]


def run(stack: LocalTidewheel, command: list[str], place: Path, **variables: str) -> str:
    """Runs a program with the variables that the page names, and with the local endpoint."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    local = {
        "AWS_ENDPOINT_URL": stack.endpoint_url,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
    }
    done = subprocess.run(
        command, cwd=place, env=kept | local | variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_program_of_a_language_sends_a_message_for_in_three_days(
    stack: LocalTidewheel, tmp_path: Path, language: str
) -> None:
    address = stack.client().core.connection.settings.address()
    command, start = prepared(language, tmp_path), stack.now()
    run(stack, command, tmp_path, **{VARIABLE: here(stack, address)})
    stack.advance(days=2, hours=23, minutes=59)
    assert stack.receive("orders", "billing") == []
    stack.advance(minutes=1, seconds=2)
    [message] = stack.receive("orders", "billing")
    assert message.deliver_at - start == timedelta(days=3)
    assert (message.json(), message.attributes) == ({"id": 17}, {})


def test_the_program_in_javascript_receives_an_id_and_a_body_and_deletes_the_message(
    stack: LocalTidewheel, tmp_path: Path
) -> None:
    prepared("js", tmp_path)
    [subscription] = stack.client().subscriptions("orders")
    receipt = stack.client().send("orders", "hello")
    stack.advance(seconds=2)
    program = ["node", "receive.mjs"]
    assert run(stack, program, tmp_path, QUEUE_URL=here(stack, subscription.queue_url)) == f"{receipt.id} hello\n"
    stack.advance(days=1)
    assert stack.receive("orders", "billing") == []
