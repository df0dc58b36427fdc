"""The files by which clients find `tidewheel dev`."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tidewheel import NotConfigured, Tidewheel
from tidewheel.client import dev_service
from tidewheel.client.asynchronous import AsyncTidewheel
from tidewheel.client.dev_service import DevService
from tidewheel.clock import SystemClock

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TIDEWHEEL_DEV", "1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    return tmp_path / "tidewheel"


def listening() -> socket.socket:
    opened = socket.socket()
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    return opened


@pytest.fixture
def service() -> Iterator[DevService]:
    with listening() as opened:
        made = DevService(
            endpoint=f"http://127.0.0.1:{opened.getsockname()[1]}",
            process=os.getpid(),
            stack="mine",
            region="us-east-1",
        )
        made.publish()
        yield made


def ahead_ms(client: Tidewheel) -> int:
    """How far a client's clock is ahead, to a minute."""
    return round((client.core.clock.now_ms() - SystemClock().now_ms()) / 60_000) * 60_000


def test_only_this_user_can_read_or_write_the_files(folder: Path, service: DevService) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [(each.name, each.stat().st_mode & 0o777) for each in folder.iterdir()] == [
        (f"dev-{service.port}.json", 0o600)
    ]
    service.withdraw()
    service.withdraw()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["readable by others", "a link", "a file", "of another user"])
def test_a_folder_that_others_could_have_made_is_not_trusted(
    folder: Path, service: DevService, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "readable by others":
        folder.chmod(0o755)
    elif kind == "of another user":
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    else:
        folder.rename(folder.with_name("other"))
        if kind == "a link":
            folder.symlink_to("other")
        else:
            folder.touch(0o600)
    with pytest.raises(NotConfigured, match="must be a folder of this user alone"):
        dev_service.found()
    with pytest.raises((NotConfigured, FileExistsError)):
        service.publish()
    assert dev_service.chosen(service.endpoint) is None


def test_without_a_runtime_folder_the_files_are_below_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with listening() as opened:
        service = DevService(
            endpoint=f"http://127.0.0.1:{opened.getsockname()[1]}",
            process=os.getpid(),
            stack="mine",
            region="us-east-1",
        )
        service.publish()
        assert dev_service.found() == service
        assert (tmp_path / f"tidewheel-{os.getuid()}" / f"dev-{service.port}.json").exists()


def test_a_client_has_the_stack_the_endpoint_and_the_moved_time(service: DevService) -> None:
    replace(service, offset_ms=3 * DAY_MS).publish()
    for client in (Tidewheel(), AsyncTidewheel().client, Tidewheel(endpoint_url=service.endpoint)):
        assert (client.core.connection.stack, ahead_ms(client)) == ("mine", 3 * DAY_MS)
        assert client.core.connection.sqs.meta.endpoint_url == service.endpoint
    client = Tidewheel()
    replace(service, offset_ms=5 * DAY_MS).publish()
    assert ahead_ms(client) == 5 * DAY_MS
    service.withdraw()
    assert ahead_ms(client) == 5 * DAY_MS


def test_what_a_caller_gives_comes_first(service: DevService) -> None:
    replace(service, offset_ms=DAY_MS).publish()
    assert Tidewheel("given").core.connection.stack == "given"
    for client in (
        Tidewheel(session=replace(service, region="eu-west-1").session(), clock=SystemClock()),
        Tidewheel(endpoint_url="http://127.0.0.1:1"),
        Tidewheel(endpoint_url="http://elsewhere.example:" + str(service.port)),
    ):
        assert (client.core.connection.stack, ahead_ms(client)) == ("tidewheel", 0)


def test_without_the_variable_nobody_is_looked_for(service: DevService, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0"):
        monkeypatch.setenv("TIDEWHEEL_DEV", value)
        assert dev_service.chosen(None) is None
        assert Tidewheel().core.connection.stack == "tidewheel"


def test_of_several_the_endpoint_of_the_environment_chooses(
    service: DevService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as opened:
        other = replace(service, endpoint=f"http://127.0.0.1:{opened.getsockname()[1]}", stack="other")
        other.publish()
        with pytest.raises(NotConfigured, match=r"several .* set AWS_ENDPOINT_URL to http://127"):
            Tidewheel()
        for each in (service, other):
            monkeypatch.setenv("AWS_ENDPOINT_URL", each.endpoint.replace("127.0.0.1", "localhost"))
            assert dev_service.found() == each
        other.withdraw()
        for elsewhere in ("http://[none", other.endpoint):
            monkeypatch.setenv("AWS_ENDPOINT_URL", elsewhere)
            with pytest.raises(NotConfigured, match="correct or unset AWS_ENDPOINT_URL"):
                dev_service.found()


@pytest.mark.parametrize("kind", ["its process is gone", "nothing listens"])
def test_a_service_that_is_gone_is_not_found_and_the_next_one_deletes_its_file(
    folder: Path, service: DevService, kind: str
) -> None:
    service.withdraw()
    with listening() as opened:
        endpoint = f"http://127.0.0.1:{opened.getsockname()[1]}"
        if kind == "nothing listens":
            opened.close()
        gone = replace(service, endpoint=endpoint, process=2**22 + 1 if kind == "its process is gone" else os.getpid())
        gone.publish()
        with pytest.raises(NotConfigured, match="no `tidewheel dev` of this user is running: start it with"):
            Tidewheel()
        assert dev_service.chosen(endpoint) is None
        service.publish()
    assert [each.name for each in folder.iterdir()] == [f"dev-{service.port}.json"]


def test_a_file_that_is_none_of_ours_is_passed_over(folder: Path, service: DevService) -> None:
    (folder / "dev-1.json").write_text("{")
    (folder / "dev-2.json").write_text('{"endpoint": "x"}')
    assert dev_service.found() == service
