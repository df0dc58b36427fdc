"""Reads the service and the operation of an HTTP request to AWS.

Why: requests at the endpoint are counted by operation. Spark's S3 client does not use botocore.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

JSON_SERVICES = frozenset({"dynamodb", "glue", "sqs", "ssm"})
_S3_HOST = re.compile(r"(?:(?P<bucket>.+)\.)?s3[.-]")
_LISTING = frozenset(
    {
        *("continuation-token", "delimiter", "encoding-type", "fetch-owner"),
        *("list-type", "marker", "max-keys", "prefix", "start-after"),
    }
)
_SCOPE = re.compile(r"Credential=[^/]+/[^/]+/([^/]+)/([^/]+)/")
_SCHEDULES = {"POST": "CreateSchedule", "PUT": "UpdateSchedule", "GET": "GetSchedule", "DELETE": "DeleteSchedule"}
_INVOKED = re.compile(r"/functions/([^/]+)/invocations$")
_S3_OBJECT = {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}
_S3_BUCKET = {"PUT": "CreateBucket", "HEAD": "HeadBucket", "DELETE": "DeleteBucket"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """An HTTP request to a service.

    Attributes:
        service: the service's name in boto3.
        operation: the operation's name, if the sender knows it.
        headers: by name in lower case.
        body: the whole body, or a part that is not needed.
    """

    service: str
    operation: str | None
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def of_wsgi(environ: Mapping[str, Any], body: bytes) -> WireRequest:
    """Reads a request from HTTP. The service is taken from the signature."""
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    scope = scope_of(environ)
    path = environ.get("RAW_URI") or environ["PATH_INFO"] + "?" + environ.get("QUERY_STRING", "")
    return WireRequest(
        service=scope[0] if scope else "unsigned",
        operation=None,
        method=environ["REQUEST_METHOD"],
        url=f"http://{headers.get('host', '')}{path}",
        headers=headers,
        body=body,
    )


def scope_of(environ: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the service and the Region for which a request from HTTP is signed."""
    signed = environ.get("HTTP_AUTHORIZATION") or unquote(environ.get("QUERY_STRING", ""))
    found = _SCOPE.search(signed)
    return (found[2], found[1]) if found else None


def operation_of(request: WireRequest) -> str | None:
    """Returns the name of a request's operation, or None if it is unknown."""
    path = unquote(urlsplit(request.url).path)
    name: str | None = None
    if request.service in JSON_SERVICES and "x-amz-target" in request.headers:
        name = request.headers["x-amz-target"].rpartition(".")[2]
    elif request.service == "s3":
        name = _s3_operation(request)
    elif request.service == "scheduler" and path.strip("/").partition("/")[0] == "schedules":
        name = _SCHEDULES[request.method] if path.strip("/").partition("/")[2] else "ListSchedules"
    elif request.service == "lambda" and _INVOKED.search(path):
        name = "Invoke"
    return name or request.operation


def s3_place(request: WireRequest) -> tuple[str, str]:
    """Returns the names of the S3 bucket and the object that a request's address has."""
    parts = urlsplit(request.url)
    host, path = _S3_HOST.match(parts.hostname or ""), unquote(parts.path).lstrip("/")
    if host and host["bucket"]:
        return host["bucket"], path
    bucket, _, key = path.partition("/")
    return bucket, key


def _s3_operation(request: WireRequest) -> str | None:
    query = set(parse_qs(urlsplit(request.url).query, keep_blank_values=True)) - {"x-id"}  # botocore's own name
    if not s3_place(request)[1]:
        if request.method == "GET" and "location" in query:
            return "GetBucketLocation"
        if request.method == "GET" and query <= _LISTING:
            return "ListObjectsV2" if "list-type" in query else "ListObjects"
        if request.method == "POST" and "delete" in query:
            return "DeleteObjects"
        return None if query else _S3_BUCKET.get(request.method)
    if "uploadId" in query or "uploads" in query:
        uploads = {"PUT": "UploadPart", "GET": "ListParts", "DELETE": "AbortMultipartUpload"}
        posted = "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        return posted if request.method == "POST" else uploads.get(request.method)
    if query:
        return None
    if request.method == "PUT":
        return "CopyObject" if "x-amz-copy-source" in request.headers else "PutObject"
    return _S3_OBJECT.get(request.method)
