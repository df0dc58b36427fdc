"""Tells what to do about the errors of AWS's client that a first use meets, one line each."""

from __future__ import annotations

import sys

from tidewheel.cli.target import LOCAL, Target
from tidewheel.errors import TemporaryFailure

_RENEW = "renew the credentials, such as with: aws sso login"
_UNKNOWN = "check the credentials, and that they are for this endpoint: aws sts get-caller-identity"
_CODES = {
    "ExpiredToken": _RENEW,
    "RequestExpired": _RENEW,
    "InvalidClientTokenId": _UNKNOWN,
    "UnrecognizedClient": _UNKNOWN,
    "InvalidSignature": _UNKNOWN,
    "SignatureDoesNotMatch": _UNKNOWN,
    "AccessDenied": "see what a program needs: tidewheel docs permissions",
}
"""Error code of AWS, without the end `Exception` that some have -> what to do."""


def advised(error: Exception, target: Target | None) -> str:
    """Returns the text of an error, with what to do.

    Args:
        error: of any kind. Without botocore in memory, no error is botocore's.
        target: the global options, if they were read.
    """
    if isinstance(error, TemporaryFailure) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = str(error) or type(error).__name__
    boto = sys.modules.get("botocore.exceptions")
    if boto is None:
        return text
    endpoint_url = None if target is None else target.endpoint_url
    login = "aws sso login" + (f" --profile {target.profile}" if target and target.profile else "")
    advice = None
    if isinstance(error, boto.ClientError):
        code = error.response["Error"]["Code"]
        if code.isdecimal() and endpoint_url is not None:  # AWS and its emulators give names
            return f"{endpoint_url} answers with status {code}, and is not AWS; correct --endpoint-url"
        advice = _CODES.get(code.removesuffix("Exception"))
    elif isinstance(error, boto.EndpointConnectionError) and target is not None and target.here:
        return f"nothing listens at {endpoint_url}; start the service with: tidewheel dev, or correct --endpoint-url"
    elif isinstance(error, boto.NoCredentialsError):
        advice = f"run aws configure or {login}, give --profile, or {LOCAL}"
    elif isinstance(error, (boto.SSOError, boto.TokenRetrievalError)):
        advice = f"sign in: {login}"
    elif isinstance(error, boto.ProfileNotFound):
        advice = "list the profiles with: aws configure list-profiles"
    return text if advice is None else f"{text.rstrip('. ')}; {advice}"
