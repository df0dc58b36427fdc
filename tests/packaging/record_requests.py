"""Prints the requests of a botocore, as `python -P -S record_requests.py FOLDER SERVICE...`.

The folder alone is on the path. Each operation of each service is called twice, with the parameters that it requires
and with all, each time in a Region of another partition; nothing is sent. The output is JSON:
`service.Operation.minimal` or `.full` -> method, URL, headers and body of the request, or botocore's error.
"""

import datetime
import itertools
import json
import sys
import uuid

FOLDER, *SERVICES = sys.argv[1:]
sys.path.insert(0, FOLDER)

import botocore.auth  # noqa: E402  - only now is the folder on the path
import botocore.session  # noqa: E402
from botocore.config import Config  # noqa: E402

assert botocore.__file__.startswith(FOLDER), botocore.__file__

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
REGIONS = {"minimal": "cn-north-1", "full": "eu-central-1"}
NAMED = {
    "AccountId": "123456789012",
    "Bucket": "tidewheel-objects",
    "CopySource": "tidewheel-objects/key",
    "FunctionName": "tidewheel-ingest",
    "Key": "a/b c+ü",
    "QueueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/tidewheel-work",
}
"""Parameters that botocore reads on the way."""

SCALARS = {"integer": 7, "long": 7, "float": 1.5, "double": 1.5, "boolean": True, "blob": b"bytes", "timestamp": NOW}

numbers = itertools.count()
uuid.uuid4 = lambda: uuid.UUID(int=next(numbers))
botocore.auth.get_current_datetime = lambda remove_tzinfo=True: NOW.replace(tzinfo=None) if remove_tzinfo else NOW


class Recorded(Exception):
    """Ends a call with the request."""


def example(shape, name, *, full, above=()):
    """Returns a value of a shape. Recursive shapes get no value."""
    if shape.type_name == "structure":
        inner = (*above, shape.name)
        names = [each for each in shape.members if full or each in shape.required_members]
        if getattr(shape, "is_tagged_union", False):
            names = list(shape.members)[:1]
        parts = {each: shape.members[each] for each in names if shape.members[each].name not in inner}
        return {each: example(part, each, full=full, above=inner) for each, part in parts.items()}
    if shape.type_name in ("list", "map"):
        inner = shape.member if shape.type_name == "list" else shape.value
        if inner.name in above:
            return [] if shape.type_name == "list" else {}
        value = example(inner, name, full=full, above=above)
        return [value] * max(1, shape.metadata.get("min", 1)) if shape.type_name == "list" else {"key": value}
    if shape.type_name in SCALARS:
        value = SCALARS[shape.type_name]
        return max(value, shape.metadata.get("min", 0)) if type(value) is int else value
    return NAMED.get(name) or (shape.enum or ["x" * max(1, shape.metadata.get("min", 1))])[0]


def record(request, **_):
    """Raises the request instead of sending it."""
    body = request.body.read() if hasattr(request.body, "read") else request.body
    body = body if isinstance(body, bytes) else (body or "").encode()
    headers = {name: value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
    raise Recorded([request.method, request.url, headers, body.decode("latin-1")])


def outcome(client, operation, *, full):
    """Returns the request of a call, or botocore's error."""
    model = client.meta.service_model.operation_model(operation)
    parameters = {} if model.input_shape is None else example(model.input_shape, "", full=full)
    try:
        client._make_api_call(operation, parameters)
    except Recorded as recorded:
        return recorded.args[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no request"


session = botocore.session.get_session()
found = {}
for service in SERVICES:
    for kind, region in REGIONS.items():
        client = session.create_client(service, region_name=region, config=Config(retries={"total_max_attempts": 1}))
        client.meta.events.register("before-send", record)
        for operation in client.meta.service_model.operation_names:
            found[f"{service}.{operation}.{kind}"] = outcome(client, operation, full=kind == "full")
print(json.dumps(found))
