"""A wrapper of an SQS client with eventual consistency, as in AWS."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

DELETED_S = 60.0


class EventualSqs:
    """Hides a new queue for some seconds, and answers for a deleted queue for a minute.

    Each operation is answered by a host of its own, which learns of a new queue some seconds after it is asked first,
    and within twenty.

    Attributes:
        hidden_s: how long a host does not know a new queue.
        now_s: its time, which `sleep` moves.
        new: name -> since when a queue is new.
    """

    def __init__(self, client: Any, *, hidden_s: float = 1.0) -> None:
        self._client = client
        self.hidden_s = hidden_s
        self._known_at_s: dict[tuple[str, str], float] = {}
        self._deleted_s: dict[str, float] = {}
        self.now_s = 0.0
        self.new: dict[str, float] = {}
        self.exceptions = client.exceptions

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._client, operation)

        def call(**request: Any) -> Any:
            name = request.get("QueueName") or request["QueueUrl"].rpartition("/")[2]
            if operation == "create_queue":
                return self._create(name, request)
            self._check_known(name, operation)
            if operation == "delete_queue":
                self._deleted_s[name] = self.now_s
                return {}
            return method(**request)

        return call

    def _check_known(self, name: str, operation: str) -> None:
        gone = self.now_s >= self._deleted_s.get(name, self.now_s) + DELETED_S
        if gone or not self._is_known(name, operation):
            self._refuse("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", operation)

    def _is_known(self, name: str, operation: str) -> bool:
        known_at_s = self._known_at_s.setdefault((name, operation), self.now_s + self.hidden_s)
        return name not in self.new or self.now_s >= min(known_at_s, self.new[name] + 20)

    def _refuse(self, exception: str, code: str, operation: str) -> None:
        told = "The specified queue does not exist." if exception == "QueueDoesNotExist" else f"This is {code}."
        raise getattr(self.exceptions, exception)({"Error": {"Code": code, "Message": told}}, operation)

    def _create(self, name: str, request: dict[str, Any]) -> Any:
        if name in self._deleted_s:
            if self.now_s < self._deleted_s[name] + DELETED_S:
                self._refuse("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", "CreateQueue")
            del self._deleted_s[name]
            self._client.delete_queue(QueueUrl=self._client.get_queue_url(QueueName=name)["QueueUrl"])
        policy = json.loads(request.get("Attributes", {}).get("RedrivePolicy", "{}"))
        dead = policy.get("deadLetterTargetArn", "").rpartition(":")[2]
        if not self._is_known(dead, "create_queue"):
            told = "Value for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist."
            raise ClientError({"Error": {"Code": "InvalidParameterValue", "Message": told}}, "CreateQueue")
        try:
            url = self._client.get_queue_url(QueueName=name)["QueueUrl"]
        except self.exceptions.QueueDoesNotExist:
            self.new[name] = self.now_s
            self._known_at_s = {key: at_s for key, at_s in self._known_at_s.items() if key[0] != name}
        else:
            if self._client.list_queue_tags(QueueUrl=url).get("Tags", {}) != request.get("tags", {}):
                self._refuse("QueueNameExists", "QueueAlreadyExists", "CreateQueue")
        return self._client.create_queue(**request)
