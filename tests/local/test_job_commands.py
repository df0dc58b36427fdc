"""`tidewheel merge`, `rebuild` and `import` with `--json`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel


def test_the_result_of_a_job_is_one_json_object_and_its_lines_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    begin = datetime.now(UTC)
    with LocalTidewheel(start=begin) as stack:
        tw = stack.client()
        tw.create_topic("orders")
        for _ in range(2):
            tw.send("orders", "hello", delay="3d")
            stack.advance(minutes=10)
        file = tmp_path / "more.jsonl"
        due = [begin + timedelta(days=4), begin - timedelta(days=4)]
        file.write_text("".join(json.dumps({"deliver_at": each.isoformat(), "body": "x"}) + "\n" for each in due))

        def run(*arguments: str) -> tuple[Any, str]:
            target = Target(stack=stack.stack_name, endpoint_url=stack.endpoint_url)
            done = CliRunner().invoke(app, [*arguments, "--json"], obj=target)
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout), done.stderr

        merged, lines = run("merge", "orders", "--all")
        assert (merged["sources"], merged["outputs"], len(merged["written"])) == (2, 1, 1)
        assert "2 ledgers became 1 in 1 merges" in lines
        rebuilt, lines = run("rebuild", "orders", "--dry-run")
        assert (rebuilt["topic"], rebuilt["live"], rebuilt["rows"]) == ("orders", 1, 2)
        assert "table and objects agree" in lines
        imported, lines = run("import", "orders", str(file))
        assert (imported["imported"], sum(imported["rejected"].values()), imported["failed"]) == (1, 1, {})
        assert "2 rows read, 1 imported" in lines
