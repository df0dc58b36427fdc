"""The story of `tests/artifact` on DynamoDB Local, ElasticMQ and versitygw, run by `make test-independent`.

Schedules, parameters and starts of functions are the harness's, as on moto. ElasticMQ's time is moved like the
functions'. DynamoDB Local has the machine's time, which it needs for TTL alone: no item of the story expires. Its
answers have the moved time behind `DatedFront`. versitygw has the machine's time behind `S3Front`.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.artifact.cloud import START_MS, Cloud, Parts
from tests.artifact.conftest import built, package_index, parts, wheel
from tests.artifact.deployment import Endpoints
from tests.artifact.moved_clock import MovedClock
from tests.artifact.scenario import Scenario
from tests.artifact.service import ArtifactService
from tests.artifact.template import REGION
from tests.artifact.test_whole import hours
from tests.independent.dated_front import DatedFront
from tests.independent.fetch import fetch
from tests.independent.s3_front import S3Front
from tests.independent.servers import running

__all__ = ["built", "package_index", "parts", "wheel"]


def test_what_is_deployed_delivers_real_messages_once_and_in_time(parts: Parts, tmp_path: Path) -> None:
    servers, logs = tmp_path / "servers", tmp_path / "logs"
    servers.mkdir()
    logs.mkdir()
    clock = MovedClock(servers / "clock", START_MS)
    begin = time.monotonic()
    with running(fetch(), servers, region=REGION, clock=clock.file) as found:
        front = S3Front(found["AWS_ENDPOINT_URL_S3"], servers / "objects", clock)
        table = DatedFront(found["AWS_ENDPOINT_URL_DYNAMODB"], clock)
        endpoints = Endpoints(dynamodb=table.url, s3=front.url, sqs=found["AWS_ENDPOINT_URL_SQS"])
        with Cloud(parts, logs, endpoints, clock) as cloud:
            verdict = Scenario(ArtifactService(cloud), hours()).run()
            functions = cloud.functions
            print(f"\n{verdict}, {time.monotonic() - begin:.0f} s; calls: {dict(functions.calls)}")
            assert (verdict.faults, functions.failures) == ({}, [])
            assert verdict.messages > 300 and verdict.arrived == verdict.copies > 700
            assert functions.calls.keys() == {"ingest", "dispatch", "deliver", "sweep", "compact"}
        front.close()
        table.close()
