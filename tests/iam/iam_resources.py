"""Adds IAM requests for the tags of a queue and the KMS key of an encrypted resource.

Why: moto 5.2.5 encrypts nothing, and checks neither `kms:ViaService` nor `aws:ResourceTag`. On AWS a call on a
resource encrypted with a customer's key needs the key as well, used by the service in the caller's name:

    queues     a send makes a data key and opens it, a receive opens it
    objects    a put makes a data key; a get, and an upload in parts, open one
    items      every call opens the table's key

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from tests.iam.iam_policy import RESOURCE_TAG, Request
from tidewheel.local.emulator.wire import REGION

DECRYPT, MAKE_DATA_KEY = "kms:Decrypt", "kms:GenerateDataKey"
AWS_MANAGED = "alias/aws/"
"""Prefix of AWS's own keys, which need no permission."""

_NEEDS = {
    "sqs:SendMessage": (DECRYPT, MAKE_DATA_KEY),
    "sqs:ReceiveMessage": (DECRYPT,),
    "s3:GetObject": (DECRYPT,),
    "s3:PutObject": (MAKE_DATA_KEY,),
    **{
        f"dynamodb:{name}Item": (DECRYPT,)
        for name in ("BatchGet", "BatchWrite", "ConditionCheck", "Delete", "Get", "Put", "Update")
    },
    "dynamodb:Query": (DECRYPT,),
    "dynamodb:Scan": (DECRYPT,),
}
_IN_PARTS = frozenset({"CompleteMultipartUpload", "CreateMultipartUpload", "UploadPart"})


def asked(request: Request, operation: str = "") -> Iterable[Request]:
    """Returns a request with its resource's tags, and the requests for the resource's key.

    Args:
        request: for a resource of this account, or of another account, whose tags and keys are unknown.
        operation: the call's name, which tells uploads in parts from others.
    """
    yield _with_tags(request)
    key = _key_of(request)
    if key is None or _is_awss(key):
        return
    service = request.action.partition(":")[0]
    through = (("kms:ViaService", (f"{service}.{REGION}.amazonaws.com",)),)
    actions = _NEEDS.get(request.action, ())
    if service == "s3" and operation in _IN_PARTS:
        actions = (DECRYPT, MAKE_DATA_KEY)
    for action in actions:
        yield Request(action=action, resource=_key_arn(key), context=through)


def is_disabled_key(resource: str) -> bool:
    """Returns whether a resource is a disabled KMS key. No caller may use such a key."""
    found = kms_backends[DEFAULT_ACCOUNT_ID][REGION].keys.get(resource.rpartition(":key/")[2])
    return found is not None and not found.enabled


def _with_tags(request: Request) -> Request:
    """Adds the queue's tags to a request.

    A missing queue has no tags, so a statement with a condition on tags does not allow sends to such a queue.
    """
    queue = _queue(request.resource)
    if queue is None or not queue.tags:
        return request
    tags = tuple((f"{RESOURCE_TAG}{name}", (str(value),)) for name, value in queue.tags.items())
    return replace(request, context=(*request.context, *tags))


def _key_of(request: Request) -> str | None:
    service, resource = request.action.partition(":")[0], request.resource
    found: Any = None
    if service == "sqs":
        queue = _queue(resource)
        found = None if queue is None else queue.kms_master_key_id
    elif service == "s3":
        bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(resource.rpartition(":")[2].partition("/")[0])
        found = None if bucket is None or bucket.encryption is None else _default_key(bucket.encryption)
    elif service == "dynamodb" and f":{DEFAULT_ACCOUNT_ID}:" in resource:
        name = resource.rpartition(":table/")[2].partition("/")[0]
        table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.get(name)
        found = None if table is None else (table.sse_specification or {}).get("KMSMasterKeyId")
    return str(found) if found else None


def _is_awss(key: str) -> bool:
    """Returns whether a key is AWS's own in this account. Everybody may use it through its service."""
    if key.startswith(AWS_MANAGED):
        return True
    found = kms_backends[DEFAULT_ACCOUNT_ID][REGION].keys.get(key.rpartition("/")[2])
    return found is not None and any(alias.startswith(AWS_MANAGED) for alias in found.aliases)


def _default_key(encryption: Any) -> str | None:
    rules = encryption["Rule"]
    [rule] = rules if isinstance(rules, list) else [rules]
    found: str | None = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    return found


def _queue(arn: str) -> Any:
    """Returns a queue of this account and Region. Returns None for other ARNs."""
    _, _, service, region, account, name = (*arn.split(":", 5), *[""] * 6)[:6]
    if (service, region, account) != ("sqs", REGION, DEFAULT_ACCOUNT_ID):
        return None
    return sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.get(name)


def _key_arn(key: str) -> str:
    return key if key.startswith("arn:") else f"arn:aws:kms:{REGION}:{DEFAULT_ACCOUNT_ID}:key/{key}"
