"""Counts the AWS requests of a session's clients."""

from __future__ import annotations

from collections import Counter
from typing import Any

import boto3
from botocore.model import OperationModel


class RequestMeter(Counter[str]):
    """Counts calls by "service.Operation". Make it before the client: a boto3 client copies its session's handlers."""

    def __init__(self, session: boto3.Session) -> None:
        super().__init__()
        session.events.register_first("before-call", self._count)

    def _count(self, model: OperationModel, **_: Any) -> None:
        self[f"{model.service_model.service_name}.{model.name}"] += 1
