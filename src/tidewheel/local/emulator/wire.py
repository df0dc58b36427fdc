"""Passes requests to moto, directly inside the process and over HTTP for other clients.

Why: a socket, a signature and a WSGI server cost some milliseconds a request, and `mock_aws` would catch the clients
of the caller's own code too. Here a botocore session of our own answers its `before-call` event: botocore serializes
and validates the request as usual, and then moto gets the request. Other sessions are not affected.

Both ways hold one lock for each request: moto's backends are not safe under threads (`TransactWriteItems` let two
of thirty races win).
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from email.utils import formatdate
from functools import cache
from http import HTTPStatus
from io import BytesIO
from posixpath import normpath
from threading import RLock, Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import boto3
import botocore.session
from botocore.awsrequest import AWSResponse, create_request_object
from botocore.config import Config
from botocore.endpoint import convert_to_response_dict
from botocore.hooks import HierarchicalEmitter
from botocore.loaders import Loader
from botocore.model import OperationModel, OperationNotFoundError
from botocore.parsers import ResponseParserFactory
from moto import backend_index, backends
from moto.core.base_backend import BackendDict
from moto.core.botocore_stubber import MockRawResponse
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.request import Request, normalize_request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

from tidewheel.client.dev_service import check_free
from tidewheel.clock import Clock, tell
from tidewheel.errors import TidewheelError
from tidewheel.local.emulator.wire_calls import of_wsgi, operation_of, scope_of

REGION = "us-east-1"
ACCESS_KEY = "AKIALOCALTIDEWHEEL00"
XML_SERVICES = frozenset({"cloudformation", "iam", "s3", "sns", "sts"})
_AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/local/aws4_request"
_OWN_HOST = re.compile(r"(?:(?:[\w.-]+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?", re.ASCII | re.IGNORECASE)
"""The names of this machine that no other machine can have. S3's buckets may be below `localhost`."""
_BUCKET_HOST = re.compile(r"(.+)\.localhost(?::\d+)?", re.ASCII | re.IGNORECASE)
_POLL_S = 0.05
"""How often the endpoint looks whether to stop. By default its end would take half a second."""
_CONFIG: dict[str, Any] = {
    "region": REGION,
    # The AWS settings of the developer's shell must not redirect our clients.
    "profile": None,
    "ignore_configured_endpoint_urls": True,
    "use_fips_endpoint": False,
    "use_dualstack_endpoint": False,
}

Answer = tuple[int, dict[str, Any], Any]
Observer = Callable[[str, str, dict[str, Any], int], None]
Operation = Callable[[dict[str, Any]], Answer | None]
"""Answers botocore's request. Returns None to leave the request to moto."""
Own = Mapping[tuple[str, str], Operation]
Command = Callable[[str], Iterable[str]]
Commands = Mapping[str, Command]
"""Path of a command -> a function that takes the request's body and returns the answer's text, at once or in parts."""


@cache
def _shared() -> tuple[Loader, HierarchicalEmitter]:
    """Returns botocore's models of services, and its own hooks. To make both anew for a session takes 20 ms of CPU."""
    hooks = HierarchicalEmitter()
    core = botocore.session.Session(event_hooks=hooks)
    return core.get_component("data_loader"), hooks


class Wire:
    """Answers requests from moto's backends, one at a time.

    Args:
        lock: held for each request.
        own: operations, by service and name, answered by our functions instead of moto; over HTTP only those of
            CloudFormation.
        clock: the time of the answers.
        commit: called after each request, before the answer leaves.
        port: where the HTTP server listens; 0 for any free port.
        commands: answered by the HTTP server, without the lock; see `HttpServer`.

    Attributes:
        endpoint_observer: called after each request at the HTTP server, as of `core_session`.
    """

    def __init__(
        self,
        lock: RLock,
        own: Own,
        clock: Clock,
        commit: Callable[[], None],
        port: int = 0,
        commands: Commands = MappingProxyType({}),
    ) -> None:
        self._lock = lock
        self._commit, self._commands, self._clock, self._own, self._port = commit, commands, clock, own, port
        self._routes: dict[str, list[tuple[re.Pattern[str], Any]]] = {}
        self._parsers = ResponseParserFactory()
        self._server: HttpServer | None = None
        self.endpoint_observer: Observer | None = None
        self.closed = False

    def session(self, observer: Observer | None = None) -> boto3.Session:
        """Returns a boto3 session whose clients never leave the process. See `core_session`."""
        return boto3.Session(botocore_session=self.core_session(observer))

    def core_session(self, observer: Observer | None = None) -> botocore.session.Session:
        """Returns a botocore session whose clients never leave the process.

        Args:
            observer: called after each request with service, operation, request and the length of the response.
        """
        loader, hooks = _shared()
        core = botocore.session.Session(event_hooks=copy(hooks), include_builtin_handlers=False)
        core.register_component("data_loader", loader)
        core.set_credentials(ACCESS_KEY, "local")
        for name, value in _CONFIG.items():
            core.set_config_variable(name, value)
        # Without a user agent of its own, botocore builds the user agent at each request, in 50 microseconds.
        core.set_default_client_config(Config(retries={"total_max_attempts": 1}, user_agent="tidewheel-local"))

        def answer(model: OperationModel, params: dict[str, Any], **_: Any) -> Any:
            return self._answer(model, params, observer)

        core.get_component("event_emitter").register_last("before-call", answer)
        tell(core, self._clock)
        return core

    def _answer(self, model: OperationModel, params: dict[str, Any], observer: Observer | None) -> Any:
        if "amazonaws.com" not in params["url"]:
            return None  # a client with another endpoint: the request goes there
        if self.closed:
            raise RuntimeError("this local Tidewheel stack is closed, and its clients with it")
        with self._lock:
            service = model.service_model.service_name
            status, headers, body = self._ask((service, model.name), params)
            self._commit()
            headers = {**headers, "Date": _date(self._clock)}
            response = AWSResponse(params["url"], status, headers, MockRawResponse(body))  # type: ignore[arg-type]
            described = convert_to_response_dict(response, model)
            parser = self._parsers.create_parser(model.service_model.resolved_protocol)
            parsed = parser.parse(described, model.output_shape)  # type: ignore[arg-type]
            if status >= 300:
                error_shape = model.service_model.shape_for_error_code(parsed.get("Error", {}).get("Code", ""))
                if error_shape is not None:
                    parsed.update(parser.parse(described, error_shape))
            if observer is not None:
                observer(service, model.name, params, len(body))
        return response, parsed

    def _ask(self, operation: tuple[str, str], params: dict[str, Any]) -> Answer:
        own = self._own.get(operation)
        answer = None if own is None else own(params)
        return self._dispatch(params) if answer is None else answer

    def _dispatch(self, params: dict[str, Any]) -> Answer:
        prepared = create_request_object(params).prepare()
        # moto's S3 answers 403 to unsigned requests. Nothing checks the signature.
        prepared.headers["Authorization"] = _AUTHORIZATION
        return self._ask_moto(normalize_request(prepared), prepared.url)

    def _serve(self, environ: dict[str, Any]) -> Answer:
        """Answers a request from HTTP. Its service is the one that it is signed for, or S3."""
        request = _HttpRequest(environ)
        service, region = scope_of(environ) or ("s3", REGION)
        host = f"{service}.{region}.amazonaws.com"
        bucket = _BUCKET_HOST.fullmatch(request.host) if service == "s3" else None
        if bucket is not None:
            host = f"{bucket[1]}.{host}"
        # Not for other services: a form is read once, and an object may have its content type.
        operation = request.form.get("Action", "") if service == "cloudformation" else ""
        own = self._own.get((service, operation))
        target = request.headers.get("x-amz-target")
        try:
            answer = None if own is None else own({"body": request.form})
            if answer is None:
                answer = self._ask_moto(request, f"https://{host}{request.raw_path}")
        except Exception as error:  # moto's own ones: AWS tells a code
            answer = answer_of(service, HTTPStatus.BAD_REQUEST, *refusal_for(error), in_json=target is not None)
        self._commit()
        call = of_wsgi(environ, request.data)
        name = operation_of(call)
        if self.endpoint_observer is not None and name is not None:
            with suppress(ValueError, RecursionError):  # refused by moto
                self.endpoint_observer(call.service, name, {"body": request.data}, len(answer[2]))
        return answer

    def _ask_moto(self, request: Request, url: str) -> Answer:
        """Returns moto's answer.

        Args:
            request: the request, with the address that the client knows.
            url: AWS's address of what is asked.
        """
        method = self._method(url)
        if method is None:
            return HTTPStatus.NOT_FOUND, {}, f"nothing is emulated at {url}"
        try:
            status, headers, body = method(request, request.raw_url, request.headers)
        except HTTPException as error:
            status, headers, body = error.code or 500, dict(error.get_headers()), error.get_body()
        return int(status), headers, body

    def _method(self, url: str) -> Any:
        clean = url.partition("?")[0]
        parts = urlsplit(clean)
        base = f"{parts.scheme}://{parts.netloc}"
        routes = self._routes.get(base)
        if routes is None:
            routes = self._routes[base] = _routes_of(clean)
        return next((method for pattern, method in routes if pattern.match(clean)), None)

    @property
    def endpoint_url(self) -> str:
        """The endpoint of the same backends for other AWS clients. The server starts at the first use."""
        if self._server is None:
            self._server = HttpServer(self._serve, self._lock, self._clock, self._port, commands=self._commands)
        return self._server.url

    def close(self) -> None:
        """Stops the server. From now on, clients of our sessions fail with a clear error."""
        self.closed = True
        if self._server is not None:
            self._server.close()
            self._server = None


def _routes_of(url: str) -> list[tuple[re.Pattern[str], Any]]:
    for service, pattern in backend_index.backend_url_patterns:
        if not pattern.match(url) or service.startswith("moto_api"):  # which can end the process
            continue
        try:
            found: Any = backends.get_backend(service)  # type: ignore[call-overload]
        except ImportError:  # a service of moto that needs more packages
            return []
        assert isinstance(found, BackendDict)
        account = found[DEFAULT_ACCOUNT_ID]
        backend = account[REGION] if REGION in account else account["aws"]
        return [(re.compile(route), method) for route, method in backend.urls.items()]
    return []


class _HttpRequest(Request):
    from_wsgi_server = True  # the server sets the time of the answer


class _QuietHandler(WSGIRequestHandler):
    clock: Clock

    def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002
        """Returns the time of an answer, by the stack's clock."""
        return _date(self.clock)

    def log(self, type: str, message: str, *args: Any) -> None:
        """Logs nothing, since a line per request would drown the caller's output."""


def _date(clock: Clock) -> str:
    return formatdate(clock.now_ms() // 1000, usegmt=True)


def _refusal(environ: Mapping[str, Any]) -> str | None:
    """Returns why a request is refused, or None.

    Web pages must not use the endpoint. Browsers send `Sec-Fetch-Site` or `Origin`, and AWS SDKs send neither. A page
    whose own name was made to resolve to this machine sends that name as `Host`. moto's own interface checks no rights
    and can end the process.
    """
    for header, key in (("Origin", "HTTP_ORIGIN"), ("Sec-Fetch-Site", "HTTP_SEC_FETCH_SITE")):
        if key in environ:
            return f"the header {header} is {environ[key]!a}. Web pages may not use this endpoint, AWS SDKs may"
    host, path = environ.get("HTTP_HOST", ""), environ["PATH_INFO"]
    if not _OWN_HOST.fullmatch(host):
        return f"the header Host is {host!a}. Use localhost, a name that ends in .localhost, or 127.0.0.1"
    if normpath("/" + path.lstrip("/")).startswith("/moto-api"):
        return f"the path is {path!a}. moto's own interface is closed here. Start the stack again to empty it"
    return None


def _response(environ: Mapping[str, Any], answer: Answer) -> Response:
    status, headers, body = answer
    response = Response(body, status, headers)
    lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
    if environ["REQUEST_METHOD"] == "HEAD" and lengths:
        response.headers["Content-Length"] = lengths[0]  # of the object, not of the empty body
    return response


_client: ContextVar[socket.socket | None] = ContextVar("tidewheel_endpoint_client", default=None)


def client_has_gone() -> bool:
    """Returns whether the client of the present request has closed its connection, if it came by HTTP."""
    client = _client.get()
    try:
        return client is not None and not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:  # the client waits for the answer
        return False
    except OSError:
        return True


class HttpServer:
    """Serves moto on 127.0.0.1, in threads, under our lock.

    Args:
        answer: answers a request.
        lock: held for each request.
        clock: the time of the answers.
        port: where to listen; 0 for any free port.
        commands: called by a POST to their paths, without the lock. A TidewheelError is answered with 400.

    Raises:
        InvalidValue: another program listens on the port.
    """

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Answer],
        lock: RLock,
        clock: Clock,
        port: int = 0,
        commands: Commands = MappingProxyType({}),
    ) -> None:
        self._answer, self._lock, self._commands = answer, lock, commands
        self._closed = False

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            return _response(environ, self._answered(environ))(environ, start_response)

        check_free("port", port)
        handler = type("Handler", (_QuietHandler,), {"clock": clock})
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", port, application, threaded=True, request_handler=handler
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="tidewheel-endpoint", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stops listening. Waits for the request under way, and refuses those that wait for the lock."""
        with self._lock:
            self._closed = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answered(self, environ: dict[str, Any]) -> Answer:
        refusal = _refusal(environ)
        if refusal is not None:
            return HTTPStatus.FORBIDDEN, {}, f"Refused: {refusal}.\n"
        # Read before the lock is taken, so that a slow sender does not hold up other requests.
        length_text = environ.get("CONTENT_LENGTH") or "0"
        if not (length_text.isascii() and length_text.isdigit()):
            return HTTPStatus.BAD_REQUEST, {}, f"Refused: Content-Length is {length_text!a}.\n"
        length = int(length_text)
        body = environ["wsgi.input"].read(length) if length else b""
        if length:
            environ["wsgi.input"] = BytesIO(body)
        command = self._commands.get(environ["PATH_INFO"])
        if command is not None and environ["REQUEST_METHOD"] == "POST":
            try:
                return HTTPStatus.OK, {}, command(body.decode(errors="replace"))
            except TidewheelError as error:
                return HTTPStatus.BAD_REQUEST, {}, str(error)
        _client.set(environ.get("werkzeug.socket"))
        with self._lock:
            if self._closed:  # the backends are another stack's by now
                return HTTPStatus.SERVICE_UNAVAILABLE, {}, ""
            return self._answer(environ)


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
