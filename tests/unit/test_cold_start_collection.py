"""Nothing is collected while a function starts."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator

import pytest

from tidewheel.aws import cold_start


@pytest.fixture(autouse=True)
def _collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Is a Lambda function's process; leaves Python collecting."""
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
    gc.enable()
    yield
    gc.enable()


def test_python_collects_again_once_a_function_has_started_and_leaves_what_is_there() -> None:
    gc.unfreeze()
    start = importlib.reload(cold_start)
    assert not gc.isenabled()
    start.started()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000


def test_a_process_that_is_not_lambdas_goes_on_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_LAMBDA_INITIALIZATION_TYPE")
    gc.unfreeze()
    start = importlib.reload(cold_start)
    assert gc.isenabled()
    start.started()
    assert gc.get_freeze_count() == 0


def test_a_process_starts_once_and_one_that_does_not_collect_is_left_so() -> None:
    start = importlib.reload(cold_start)
    start.started()
    gc.disable()
    start.started()
    assert not gc.isenabled()
    importlib.reload(cold_start).started()
    assert not gc.isenabled()
