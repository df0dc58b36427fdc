"""Attacks on large bodies by permitted writers, with IAM enforced on the local stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.iam.stack import EnforcedTidewheel
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.policies import (
    CONSUMER_ACTIONS,
    SENDER_ACTIONS,
    consumer_statements,
    policy_document,
    sender_statements,
)

pytestmark = pytest.mark.long

LARGE = "x" * 1_200_000
ROLES = ("sender", "consumer")
OF_THE_ATTACKER = "payloads/orders/2030-01-01/forged"


@dataclass(frozen=True, slots=True)
class World:
    """A stack with a topic of two subscriptions, and the roles of a sender and of a consumer of `mail`."""

    stack: EnforcedTidewheel
    client: Tidewheel
    s3_bucket: str

    def role(self, name: str) -> Any:
        """Returns an S3 client with the rights of a role, for an attacker with the role's credentials."""
        arn = f"arn:aws:iam::123456789012:role/{name}"
        return self.stack._function_session(arn).create_client("s3")

    def waiting(self) -> str:
        """Sends a large body. Returns the object's name as seen in a sender's peek."""
        sent = self.client.send("orders", LARGE, delay="2h")
        self.stack.advance(seconds=301)
        [found] = [each for each in self.client.peek("orders", 100) if each.id == sent.id]
        assert found.payload is not None
        return found.payload

    def read(self, name: str) -> bytes:
        s3 = self.stack.session.client("s3")
        return bytes(s3.get_object(Bucket=self.s3_bucket, Key=name)["Body"].read())


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with EnforcedTidewheel() as stack:
        client = stack.client()
        client.create_topic("orders")
        for each in ("mail", "audit"):
            client.create_subscription("orders", each)
        settings = client.core.connection.settings
        url = next(each.queue_url for each in client.subscriptions("orders") if each.name == "mail")
        given = {
            "sender": sender_statements(settings, "orders", actions=SENDER_ACTIONS),
            "consumer": consumer_statements(settings, "orders", url, subscription="mail", actions=CONSUMER_ACTIONS),
        }
        iam = stack.session.client("iam")
        for name, statements in given.items():
            iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
            document = policy_document(statements)
            iam.put_role_policy(RoleName=name, PolicyName="given", PolicyDocument=json.dumps(document))
        stack.session.client("s3").put_object(Bucket=settings.s3_bucket, Key=OF_THE_ATTACKER, Body=b"forged")
        yield World(stack, client, settings.s3_bucket)


def in_parts(s3: Any, place: dict[str, str]) -> None:
    upload = s3.create_multipart_upload(**place)["UploadId"]
    part = s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"forged")
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")


def copied(s3: Any, place: dict[str, str], **condition: str) -> None:
    s3.copy_object(**place, CopySource={"Bucket": place["Bucket"], "Key": OF_THE_ATTACKER}, **condition)


WRITES: dict[str, Callable[[Any, dict[str, str]], object]] = {
    "put": lambda s3, place: s3.put_object(**place, Body=b"forged"),
    "put as new": lambda s3, place: s3.put_object(**place, Body=b"forged", IfNoneMatch="*"),
    "put unless it is another": lambda s3, place: s3.put_object(**place, Body=b"forged", IfNoneMatch='"0"'),
    "put if it is there": lambda s3, place: s3.put_object(
        **place, Body=b"forged", IfMatch=s3.get_object(**place)["ETag"]
    ),
    "put in parts": in_parts,
    "copy": copied,
    "copy as new": lambda s3, place: copied(s3, place, IfNoneMatch="*"),
    "delete": lambda s3, place: s3.delete_object(**place),
}
REFUSALS = {"AccessDenied", "PreconditionFailed"}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("write", WRITES)
def test_nobody_who_may_write_a_large_body_may_change_anothers(world: World, role: str, write: str) -> None:
    name = world.waiting()
    with pytest.raises(ClientError) as caught:
        WRITES[write](world.role(role), {"Bucket": world.s3_bucket, "Key": name})
    assert caught.value.response["Error"]["Code"] in REFUSALS
    assert world.read(name) == LARGE.encode()


@pytest.mark.parametrize("role", ROLES)
def test_a_new_body_may_be_put_once_and_read(world: World, role: str) -> None:
    s3, place = world.role(role), {"Bucket": world.s3_bucket, "Key": f"payloads/orders/2030-01-02/{role}"}
    s3.put_object(**place, Body=b"mine", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(**place, Body=b"other", IfNoneMatch="*")
    assert s3.get_object(**place)["Body"].read() == b"mine"
