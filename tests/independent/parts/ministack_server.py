"""Runs MiniStack with the mends that the story needs: see `tests.independent.differences`."""

from typing import Any

from ministack.app import main
from ministack.services import lambda_svc

_concurrency = lambda_svc._sqs_esm_concurrency


def concurrency(mapping: dict[str, Any], *given: Any) -> int:
    """Takes CloudFormation's number parameters, which MiniStack hands on as text, for numbers."""
    scaling = {name: int(value) for name, value in (mapping.get("ScalingConfig") or {}).items()}
    return int(_concurrency({**mapping, "ScalingConfig": scaling}, *given))


lambda_svc._sqs_esm_concurrency = concurrency

main()
