"""Refuses requests as AWS does, with a status, a code and a reason in the service's format.

Why: moto raises Python errors for operations and values that are not in the service's model.
"""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import OperationNotFoundError
from botocore.validate import ParamValidator
from moto.core.utils import get_service_model

XML_SERVICES = frozenset({"cloudformation", "iam", "s3", "sns", "sts"})


class Malformed(Exception):
    """A request that its service's model does not allow. The arguments are AWS's code and the reason."""


def check_request(service: str, operation: str, body: bytes) -> None:
    """Checks a request in JSON against the service's model in botocore.

    Raises:
        OperationNotFoundError: the service has no such operation.
        Malformed: the body has unknown, missing or mistyped parameters.
    """
    shape = get_service_model(service).operation_model(operation).input_shape
    try:
        params = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Malformed("SerializationException", str(error)) from None
    wrong = ParamValidator().validate(_without_nulls(params), shape).generate_report()
    if wrong:
        code = "MissingParameter" if wrong.startswith("Missing") else "InvalidParameterValue"
        code = code if service == "sqs" else "ValidationException"
        raise Malformed("SerializationException" if wrong.startswith("Invalid type") else code, wrong)


def refusal_for(error: Exception) -> tuple[str, str]:
    """Returns AWS's code and the reason for an error with which moto ended a request."""
    if isinstance(error, Malformed):
        return error.args
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


def _without_nulls(value: Any) -> Any:
    """Returns JSON without the members that are null, which AWS reads as not set."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
