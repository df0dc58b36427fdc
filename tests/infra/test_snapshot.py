"""The production stack is the one that was agreed upon."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from infra import snapshot
from infra.local_template import normalized
from infra.snapshot import COMMAND, PATH, differences
from tests.infra.variants import template_of


def test_the_production_stack_is_as_agreed() -> None:
    agreed = json.loads(PATH.read_text(encoding="utf-8"))
    found = list(differences(agreed, normalized(template_of("production"))))
    assert not found, "\n".join([f"if this is meant, run `{COMMAND}`:", *found])


def test_a_difference_says_where_and_what() -> None:
    agreed = {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"Age": 5, "Tags": [1, 2]}}, "Old": {"Type": "T"}}
    found = {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"Age": 6, "Tags": [2, 3, 4]}}, "New": {"Type": "U"}}
    assert list(differences(agreed, found)) == [
        "+ New: U",
        "- Old: T",
        "~ Queue.Properties.Age: 5 -> 6",
        "- Queue.Properties.Tags: 1",
        "+ Queue.Properties.Tags: 3",
        "+ Queue.Properties.Tags: 4",
    ]


def test_lists_of_one_length_differ_where_their_items_do() -> None:
    assert list(differences({"a": [{"b": 1}, 2]}, {"a": [{"b": 1}, 3]})) == ["~ a[1]: 2 -> 3"]


def test_a_repeated_item_that_goes_is_a_difference() -> None:
    assert list(differences({"a": [1, 1]}, {"a": [1]})) == ["- a: 1"]


def test_long_values_are_cut_short() -> None:
    [line] = differences({"a": "x" * 500}, {"a": "y"})
    assert len(line) < 200


def test_check_fails_and_names_each_change_until_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    template = copy.deepcopy(template_of("production"))
    monkeypatch.setattr(snapshot, "PATH", tmp_path / "snapshots" / "production.json")
    monkeypatch.setattr(snapshot, "production_template", lambda: template)
    assert snapshot.main(["--check"]) == 1
    assert snapshot.main([]) == 0
    assert snapshot.main(["--check"]) == 0
    [table] = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::DynamoDB::Table"]
    template["Resources"][table]["Properties"]["DeletionProtectionEnabled"] = False
    capsys.readouterr()
    assert snapshot.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert f"~ Resources.{table}.Properties.DeletionProtectionEnabled: true -> false" in told
    assert COMMAND in told
