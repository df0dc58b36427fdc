"""Enforces IAM for each call of a function or job, by the deployed policies of its own role.

Why: moto keeps the roles that CloudFormation makes, but checks calls by access keys of its own making only, and neither
resources nor conditions as IAM does (see `iam_requests` and `iam_policy`). Here a caller is known by the role of its
session, or by the endpoint that it was given.

Also checked, as AWS does on behalf of a role: the polls of an event source mapping, the targets of a schedule, and the
use of the KMS key of an encrypted resource (see `iam_resources`).
A queue's own policy counts where it is an Allow that names the role; policies of S3 buckets do not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.iam.models import iam_backends
from moto.sqs.models import sqs_backends

from tests.iam.iam_calls import Call, UnknownCall, read_call
from tests.iam.iam_policy import Request, Statement, allowed, many, names_action
from tests.iam.iam_requests import requests_of
from tests.iam.iam_resources import asked, is_disabled_key
from tidewheel.clock import Clock
from tidewheel.local.emulator.wire import REGION, XML_SERVICES, Answer, answer_of
from tidewheel.local.emulator.wire_calls import WireRequest

_NO_RESOURCE = "*"
_MISSING = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Records a call that IAM refused.

    Attributes:
        role: the caller's role, by name.
        action: the refused action, such as s3:PutObject.
        resource: the ARN of the action's resource.
        at_ms: time of the refusal, Unix time.
    """

    role: str
    action: str
    resource: str
    at_ms: int

    @property
    def message(self) -> str:
        """AWS's message for this refusal."""
        who = f"arn:aws:sts::{DEFAULT_ACCOUNT_ID}:assumed-role/{self.role}/local"
        return (
            f"User: {who} is not authorized to perform: {self.action} on resource: {self.resource} "
            f"because no identity-based policy allows the {self.action} action"
        )


class Access:
    """Decides which calls a role may make, by the policies in moto.

    Attributes:
        denials: refused calls, oldest first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.denials: list[Denial] = []

    def answer(self, role_arn: str, request: WireRequest, ask: Callable[[], Answer]) -> Answer:
        """Answers a role's request with AWS's refusal, or with the result of `ask`."""
        role = role_name(role_arn)
        call = self._read(role, request)
        denial = self._denial(role, call)
        if denial is None:
            answered = ask()
            denial = self._unlisted(role, call, answered)
            if denial is None:
                return answered
        code = "AccessDenied" if call.service in ("sqs", *XML_SERVICES) else "AccessDeniedException"
        status = 400 if call.service in ("dynamodb", "glue", "ssm") else 403
        in_json, with_body = "x-amz-target" in request.headers, request.method != "HEAD"
        return answer_of(call.service, status, code, denial.message, in_json=in_json, with_body=with_body)

    def check(self, role_arn: str, *requests: Request, operation: str = "") -> Denial | None:
        """Returns and records the refusal of the first request not allowed. Returns None if all are allowed.

        Args:
            role_arn: the role.
            requests: the role's requests, without the requests for KMS keys, which are added here.
            operation: the call's name, if it is a call.
        """
        role = role_name(role_arn)
        statements = statements_of(role)
        for request in (each for given in requests for each in asked(given, operation)):
            own = [*statements, *_queue_statements(role_arn, request)]
            if not self.allows(role, own, request):
                return self._refuse(role, request.action, request.resource)
        return None

    def require(self, role_arn: str, resource: str, *actions: str) -> None:
        """Raises PermissionError if the role may not do all actions on a resource. Implements the emulator's port."""
        denial = self.check(role_arn, *(Request(action=action, resource=resource) for action in actions))
        if denial is not None:
            raise PermissionError(denial.message)

    def allows(self, role: str, statements: Sequence[Statement], request: Request) -> bool:  # for tests
        """Returns whether statements about a role allow a request."""
        return allowed(statements, request) and not is_disabled_key(request.resource)

    def _read(self, role: str, request: WireRequest) -> Call:
        try:
            return read_call(request)
        except UnknownCall as error:
            raise NotImplementedError(f"{role} calls what enforcement of IAM does not know: {error}") from error

    def _denial(self, role: str, call: Call) -> Denial | None:
        """Checks a call. Refuses a call with unknown resources if no statement names its action.

        Raises:
            NotImplementedError: the resources are unknown, and a statement names the action.
        """
        try:
            requests = requests_of(call.service, call.operation, call.params, _partition_key)
        except UnknownCall as error:
            action = f"{call.service}:{call.operation}"
            if not names_action(statements_of(role), action):
                return self._refuse(role, action, _NO_RESOURCE)
            raise NotImplementedError(f"enforcement of IAM does not know the resources of {error}") from error
        return self.check(_role_arn(role), *requests, operation=call.operation)

    def _unlisted(self, role: str, call: Call, answered: Answer) -> Denial | None:
        """Refuses access to a missing object if the role may not list the S3 bucket.

        AWS then does not reveal that the object is missing.
        """
        if answered[0] != _MISSING or call.operation not in ("GetObject", "HeadObject"):
            return None
        bucket_arn = f"arn:aws:s3:::{call.params['Bucket']}"
        return self.check(_role_arn(role), Request(action="s3:ListBucket", resource=bucket_arn))

    def _refuse(self, role: str, action: str, resource: str) -> Denial:
        denial = Denial(role=role, action=action, resource=resource, at_ms=self._clock.now_ms())
        self.denials.append(denial)
        return denial


def role_name(role_arn: str) -> str:
    """Returns the name at the end of a role's ARN."""
    return role_arn.rpartition("/")[2]


def statements_of(role: str) -> list[Statement]:
    """Returns the statements of all policies of a role, inline and attached.

    Raises:
        moto.iam.exceptions.NotFoundException: there is no such role.
    """
    found: Any = iam_backends[DEFAULT_ACCOUNT_ID]["aws"].get_role(role)
    documents = list(found.policies.values())
    documents += [policy.default_version.document for policy in found.managed_policies.values()]
    return [statement for document in documents for statement in _statements(_as_text(document))]


def _role_arn(role: str) -> str:
    return str(iam_backends[DEFAULT_ACCOUNT_ID]["aws"].get_role(role).arn)


def _queue_statements(role_arn: str, request: Request) -> list[Statement]:
    """Returns the statements of a queue's own policy for a role of the same account."""
    _, _, service, region, account, name = (*request.resource.split(":", 5), *[""] * 6)[:6]
    if service != "sqs" or (region, account) != (REGION, DEFAULT_ACCOUNT_ID):
        return []
    queue = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.get(name)
    policy = _statements(_as_text(queue.policy)) if queue is not None and queue.policy else []
    return [each for each in policy if each["Effect"] == "Allow" and role_arn in _principals(each)]


def _principals(statement: Statement) -> list[str]:
    principal = statement.get("Principal", {})
    return many(principal.get("AWS", [])) if isinstance(principal, dict) else []


def _as_text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)


@lru_cache(maxsize=256)
def _statements(document: str) -> tuple[Statement, ...]:
    statements = json.loads(document)["Statement"]
    return tuple(statements) if isinstance(statements, list) else (statements,)


def _partition_key(table: str, index: str | None) -> str | None:
    """Returns the partition key of a table in moto. Implements `PartitionKey`."""
    found = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.get(table)
    if found is None or index is None:
        return None if found is None else str(found.hash_key_attr)
    schemas = {each.name: each.schema for each in (*found.indexes, *found.global_indexes)}
    keys = (key["AttributeName"] for key in schemas.get(index, ()) if key["KeyType"] == "HASH")
    return next(keys, None)
