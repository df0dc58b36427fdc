"""Tests the command for any number of hostile inputs."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.effort import EXAMPLES


@pytest.mark.parametrize("examples", ["-5", "99", "many"])
def test_so_few_inputs_that_they_prove_nothing_are_refused(examples: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([examples])
    assert ended.value.code == 2
    assert "give" in capsys.readouterr().err


def test_control_c_saves_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(EXAMPLES, "100")  # as it was, afterwards
    monkeypatch.setattr(pytest, "main", lambda _: pytest.ExitCode.INTERRUPTED)
    monkeypatch.setattr("tests.fuzz.__main__.save", lambda *_, **__: pytest.fail("it was saved"))

    assert main(["100", "--damages", "0", "--save"]) == 130
    assert "nothing is saved" in capsys.readouterr().out
