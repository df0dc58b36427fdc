"""Refuses requests as AWS does, with a status, a code and a reason in the service's format.

Why: moto raises Python errors for unknown operations and for values of wrong types.
"""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import OperationNotFoundError

XML_SERVICES = frozenset({"cloudformation", "iam", "s3", "sns", "sts"})


def refusal_for(error: Exception) -> tuple[str, str]:
    """Returns AWS's code and the reason for an error with which moto ended a request."""
    unknown = isinstance(error, (OperationNotFoundError, NotImplementedError))
    code = "UnknownOperationException" if unknown else "ValidationException"
    return code, f"the request cannot be read or is not emulated: {type(error).__name__}: {error}"


def answer_of(
    service: str, status: int, code: str, reason: str, *, in_json: bool = False, with_body: bool = True
) -> tuple[int, dict[str, Any], bytes]:
    """Returns AWS's answer to a refused request. S3 and the older services answer in XML, the others in JSON.

    Args:
        in_json: whether the request names its operation in a header, so that all services answer in JSON.
    """
    if service in XML_SERVICES or (service == "sqs" and not in_json):
        said = f"<Error><Code>{code}</Code><Message>{escape(reason)}</Message></Error>" * with_body
        if service != "s3":
            said = f"<ErrorResponse>{said}</ErrorResponse>"
        return status, {"content-type": "text/xml", "content-length": str(len(said.encode()))}, said.encode()
    said = json.dumps({"__type": code, "Message": reason, "message": reason})
    headers = {"content-type": "application/x-amz-json-1.0", "x-amzn-ErrorType": code, "content-length": str(len(said))}
    return status, headers, said.encode()
