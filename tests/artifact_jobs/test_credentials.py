"""A role's credentials expire while a job reads and writes, and botocore fetches others."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from tests.artifact_jobs.aws import KEPT, Door
from tests.infra.resolved import PSEUDO
from tidewheel.jobs.location import Location

BUCKET = "shop-messages"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The simulated AWS's URL, with a container's credentials for this process."""
    server = make_server("127.0.0.1", 0, Door(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{address}/credentials")
    boto3.client("s3", region_name=PSEUDO["AWS::Region"]).create_bucket(Bucket=BUCKET)
    yield address
    server.shutdown()


def asked(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def test_objects_that_spark_reads_and_writes_outlive_the_credentials_that_they_began_with(url: str) -> None:
    objects = Location(root=f"s3://{BUCKET}", region=PSEUDO["AWS::Region"]).objects()
    for number in range(2 * KEPT):
        objects.put(f"ledgers/{number}", b"%d" % number)
    assert [objects.get_range(f"ledgers/{number}", 0, 9) for number in range(2 * KEPT)] == [
        b"%d" % number for number in range(2 * KEPT)
    ]
    assert asked(f"{url}/seen")["refused"] == {}


def test_credentials_that_are_not_renewed_are_refused(url: str) -> None:
    """Without this refusal, the test above would say nothing."""
    first = asked(f"{url}/credentials")
    s3 = boto3.client(
        "s3",
        region_name=PSEUDO["AWS::Region"],
        aws_access_key_id=first["AccessKeyId"],
        aws_secret_access_key=first["SecretAccessKey"],
        aws_session_token=first["Token"],
    )
    s3.list_objects_v2(Bucket=BUCKET)
    for _ in range(KEPT):
        asked(f"{url}/credentials")
    with pytest.raises(ClientError, match="ExpiredToken"):
        s3.list_objects_v2(Bucket=BUCKET)
