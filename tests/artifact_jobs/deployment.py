"""Simulates a deployed service for jobs, with the template's jobs and settings, their files in S3, and a topic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_cdk import aws_lambda as lambda_

from infra import application
from infra.local_template import DEFAULT_STACK, Template
from tests.contract.aws_resources import make_table
from tests.infra.resolved import PSEUDO, resolved, settings_of
from tidewheel.aws.service import Service
from tidewheel.cdk import service as cdk_service
from tidewheel.clock import SystemClock
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.ledger.ledger import decode_segment
from tidewheel.model.message import IdSource, Message
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.settings import TopicSettings, parameter_name
from tidewheel.model.validation import check_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The deployed jobs and service.

    Attributes:
        jobs: The jobs' properties by script, all references resolved.
        service: The service, as an administrator holds it.
    """

    jobs: dict[str, dict[str, Any]]
    service: Service
    _ids: IdSource = field(default_factory=IdSource)

    def create_topic(self, topic: str) -> None:
        """Creates a topic with a subscription."""
        create_topic(self.service, self.service.clock, topic, TopicSettings())
        create_subscription(self.service, self.service.clock, topic, "mail", "https://sqs/mail")

    def send(self, topic: str, messages: Iterable[Message]) -> None:
        """Brings messages to a ledger of their own."""
        self.send_pack(topic, self.pack(topic, messages))

    def pack(self, topic: str, messages: Iterable[Message]) -> bytes:
        """Packs messages as the SDK does."""
        now_ms = self.service.clock.now_ms()
        state = self.service.topic_states.read(topic)
        assert state is not None
        checked = [check_message(message, self._ids, now_ms) for message in messages]
        [(_, data)] = packs(topic, state.generation, now_ms, checked)
        return data

    def send_pack(self, topic: str, *data: bytes) -> None:
        """Ingests packs as a batch."""
        now_ms = self.service.clock.now_ms()
        ingest(self.service, topic, [decode_pack(each, now_ms) for each in data])

    def ledgers(self, topic: str) -> int:
        """Counts the live ledgers."""
        return len(self.service.buckets.all(topic))

    def rows(self, topic: str) -> Counter[tuple[int, bytes]]:
        """Counts the rows of live ledgers by due time and body."""
        found: Counter[tuple[int, bytes]] = Counter()
        for bucket in self.service.buckets.all(topic):
            for segment in bucket.segments:
                data = self.service.objects.get_range(bucket.object_name, segment.offset, segment.length)
                rows = decode_segment(data, object_name=bucket.object_name, segment=segment).to_pylist()
                found.update((row["deliver_at_ms"], row["payload"]) for row in rows)
        return found

    def key(self, topic: str, key: str) -> str | None:
        """Returns the id of the message that has a key."""
        found = self.service.keys.read(topic, key)
        return None if found is None else found.id

    def lose_table(self, client: Any) -> None:
        """Empties the table, like a lost and recreated table."""
        table = self.service.settings.table
        for page in client.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                client.delete_item(TableName=table, Key={name: item[name] for name in ("pk", "sk")})


def deploy(folder: Path, session: boto3.Session, endpoint_url: str) -> Deployment:
    """Synthesizes the stack with the jobs' archives, uploads the archives, and creates the resources needed by jobs."""
    template = _synthesized(folder)
    client = {name: session.client(name, endpoint_url=endpoint_url) for name in ("s3", "ssm", "dynamodb", "scheduler")}
    _upload(folder, client["s3"])
    settings = replace(
        settings_of(template, PSEUDO["AWS::StackName"]),
        table=make_table(client["dynamodb"]),
        s3_bucket="shop-messages",
        schedule_group="the-schedules",
        schedule_role_arn="arn:aws:iam::123456789012:role/schedules",
    )
    client["s3"].create_bucket(Bucket=settings.s3_bucket)
    client["scheduler"].create_schedule_group(Name=settings.schedule_group)
    values = {name: getattr(settings, name) for name in type(settings).__slots__}
    client["ssm"].put_parameter(Name=parameter_name(settings.stack), Value=json.dumps(values), Type="String")
    jobs = [each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::Glue::Job"]
    return Deployment(
        jobs={job["DefaultArguments"]["--tidewheel-job"]: resolved(template, job) for job in jobs},
        service=Service.of(settings, session, SystemClock(), endpoint_url=endpoint_url),
    )


def _synthesized(folder: Path) -> Template:
    """Synthesizes with bundling on. Functions have no code here, because their archives are tested separately."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cdk_service, "service_code", lambda: lambda_.Code.from_inline("pass"))
        overrides = {application.BUNDLING_STACKS: ["**"]}
        assembly = application.build_app(outdir=str(folder), overrides=overrides).synth()
    template: Template = assembly.get_stack_by_name(DEFAULT_STACK).template
    return template


def _upload(folder: Path, s3: Any) -> None:
    """Uploads the file assets, as the CDK's command line does."""
    manifest = json.loads((folder / f"{DEFAULT_STACK}.assets.json").read_text())
    made = set()
    for asset in manifest["files"].values():
        for destination in asset["destinations"].values():
            bucket = resolved({}, {"Fn::Sub": destination["bucketName"]})
            if bucket not in made:
                s3.create_bucket(Bucket=bucket)
                made.add(bucket)
            assert asset["source"]["packaging"] == "file", asset
            s3.upload_file(str(folder / asset["source"]["path"]), bucket, destination["objectKey"])
