"""Defines the command `tidewheel listen`, which posts the messages of a subscription to a URL.

received --POST--> 2xx -> acknowledged
             +---> another status, no answer in time, no connection -> comes again by its queue's own rule
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName
from tidewheel.cli.output import print_error, print_json
from tidewheel.cli.target import target
from tidewheel.errors import InvalidValue
from tidewheel.model.message import Encoding
from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.model.received import ReceivedMessage
    from tidewheel.model.subscription_state import SubscriptionState

_POLL_S = 1
"""How long a poll waits, and so the longest that Ctrl-C waits if no POST is under way."""
_FINISH_S = 5
"""How long a POST under way may wait for its answer after Ctrl-C. Then its message goes back."""
_MOST_TIMEOUT_S = 11 * 3600
"""How long a worker can keep a message."""
_ANSWER_BYTES = 65_536
"""How much of an answer's body is read, so that a usual answer is not cut off."""
_TYPES = {
    Encoding.TEXT: "text/plain; charset=utf-8",
    Encoding.JSON: "application/json",
    Encoding.BYTES: "application/octet-stream",
}


def listen(
    ctx: typer.Context,
    topic: TopicName,
    forward_to: Annotated[
        str, typer.Option(metavar="URL", help="Where to post messages, such as http://localhost:3000/hook.")
    ],
    subscription: SubscriptionName = "",
    timeout: Annotated[float, typer.Option(help="Seconds that a POST waits for its answer.")] = 30,
    take: Annotated[
        bool, typer.Option("--take", help="On a deployed stack: take the messages from their consumers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Post the messages of a subscription to a URL, until Ctrl-C.

    An answer of 2xx acknowledges a message. Otherwise the message comes again after its queue's visibility time-out,
    and goes to the dead-letter queue after as many tries as this prints at its start.
    """
    from tidewheel.client.worker.worker import Worker

    chosen = target(ctx)
    if not subscription:
        raise InvalidValue("SUBSCRIPTION", subscription, "give both names, such as orders billing")
    _check_hook(forward_to)
    if not 0.1 <= timeout <= _MOST_TIMEOUT_S:
        raise InvalidValue("--timeout", timeout, f"give seconds from 0.1 to {_MOST_TIMEOUT_S}")
    if not chosen.here and not take:
        print_error(
            f"stack {chosen.stack!r} is not on this machine: listen takes the messages of {topic}/{subscription} "
            "from their consumers. Give --take to do so, or listen to a service on this machine"
        )
        raise typer.Exit(1)
    service = chosen.client()
    found = service.core.cache.subscription(topic, subscription)
    address = f"{topic}/{subscription}"
    listener = _Listener(forward_to, timeout, source=found, as_json=as_json)
    worker = Worker(service, wait_s=_POLL_S, finish_s=_FINISH_S)
    with _warnings_as_lines(), suppress(KeyboardInterrupt):  # before the run, or a second one
        tries = _tell_ready(service, found, forward_to, as_json)
        worker.handles(address, at_once=1, retry=None, max_attempts=tries, timeout=_MOST_TIMEOUT_S)(listener.forward)
        worker.run(stop=listener.stop)
    if listener.error is not None:
        raise listener.error
    counts = [f"{count:,} {what}" for each in worker.counts.values() for what, count in asdict(each).items() if count]
    typer.echo(f"Stopped. Messages: {', '.join(counts) or 'none'}.", err=True)


def _tell_ready(service: Tidewheel, source: SubscriptionState, forward_to: str, as_json: bool) -> int:
    """Prints what is listened to, what becomes of messages that are not taken, and why messages may not come.

    Returns:
        How often a message is tried.
    """
    from tidewheel.client.receiving import MAX_RECEIVES
    from tidewheel.client.worker.inbox import Inbox

    hidden_s, receives = Inbox(service.core, source.topic, source.name).rule
    tries = min(MAX_RECEIVES, receives or MAX_RECEIVES)
    dead = f"and goes to the dead-letter queue after {tries} tries"
    if receives is None:
        dead = "without end: it has no dead letters"
    notes = [f"A message without an answer of 2xx comes again after {hidden_s} s, {dead}."]
    if source.state.value != "ACTIVE":
        how = f"tidewheel subscriptions resume {source.topic} {source.name}"
        notes.append(f"The subscription is {source.state.value}, so no new messages come. See: {how}")
    if source.filter_policy is not None:
        notes.append(f"Only messages that match its filter come: {source.filter_policy}")
    if as_json:
        ready = {"topic": source.topic, "subscription": source.name, "forward_to": forward_to}
        print_json({"ready": {**ready, "state": source.state, "filter_policy": source.filter_policy, "notes": notes}})
    else:
        typer.echo(f"Ready: {source.topic}/{source.name} to {forward_to}. Ctrl-C ends it.")
        typer.echo(visible("\n".join(notes)))
    typer.get_text_stream("stdout").flush()
    return tries


class _NotTaken(Exception):
    """The hook did not take a message. The user was told."""


class _Listener:
    """Posts messages, and prints a line for each.

    Attributes:
        stop: set when standard output does not take lines any more.
        error: the error of standard output.
    """

    def __init__(self, url: str, timeout_s: float, *, source: SubscriptionState, as_json: bool) -> None:
        self.stop = Event()
        self.error: OSError | None = None
        self._url, self._timeout_s, self._source, self._as_json = url, timeout_s, source, as_json

    def forward(self, message: ReceivedMessage) -> None:
        """Posts a message.

        Raises:
            _NotTaken: the hook did not take it.
        """
        from urllib3.exceptions import HTTPError

        begun_s, status, error = time.monotonic(), None, None
        try:
            status = post(self._url, message.bytes(), self._headers(message), self._timeout_s)
        except HTTPError as failed:
            error = getattr(failed.__cause__, "strerror", None) or f"no answer ({type(failed).__name__})"
        except ValueError as failed:
            error = f"the body cannot be decoded ({type(failed).__name__})"
        try:
            self._tell(message, status, error, round((time.monotonic() - begun_s) * 1000))
        except OSError as failed:
            self.error = failed
            self.stop.set()
        if status is None or not 200 <= status < 300:
            raise _NotTaken

    def _headers(self, message: ReceivedMessage) -> dict[str, str]:
        headers = {
            "Content-Type": _TYPES[message.encoding],
            "User-Agent": "tidewheel",
            "Tidewheel-Id": message.id,
            "Tidewheel-Topic": self._source.topic,
            "Tidewheel-Subscription": self._source.name,
            "Tidewheel-Deliver-At": message.deliver_at.isoformat(timespec="milliseconds"),
            "Tidewheel-Attempt": str(_attempt(message)),
        }
        if message.original_id is not None:
            headers["Tidewheel-Original-Id"] = message.original_id
        if message.attributes:  # JSON in ASCII: no name or value ends the header
            headers["Tidewheel-Attributes"] = json.dumps(dict(message.attributes))
        return headers

    def _tell(self, message: ReceivedMessage, status: int | None, error: str | None, took_ms: int) -> None:
        attempt = _attempt(message)
        if self._as_json:
            tried: dict[str, Any] = {"id": message.id, "status": status, "attempt": attempt, "duration_ms": took_ms}
            first = {} if message.original_id is None else {"original_id": message.original_id}
            print_json(tried | first | ({} if error is None else {"error": error}))
        else:
            again = f"  attempt {attempt}" if attempt > 1 else ""
            again += f" of {message.original_id}" if message.original_id else ""
            typer.echo(f"{datetime.now(UTC):%H:%M:%SZ}  {message.id}  {status or error}  {took_ms:,} ms{again}")
        typer.get_text_stream("stdout").flush()


def _check_hook(url: str) -> None:
    """Raises InvalidValue if messages cannot be posted to a URL."""
    from tidewheel.client.connection import is_http_url

    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or not is_http_url(url) or "@" in urlsplit(url).netloc:
        how = "give a URL that starts with http:// or https://, without a user, such as http://localhost:3000/hook"
        raise InvalidValue("--forward-to", url, how)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> int:
    """Posts a body once, without redirects and proxies. Returns the status."""
    import urllib3
    from urllib3.exceptions import HTTPError

    last, timeout = {**headers, "Connection": "close"}, urllib3.Timeout(total=timeout_s)
    answer = urllib3.request(
        "POST", url, body=body, headers=last, timeout=timeout, redirect=False, retries=False, preload_content=False
    )
    with closing(answer), suppress(HTTPError):  # the status is what counts
        answer.read1(_ANSWER_BYTES, decode_content=False)
    return answer.status


def _attempt(message: ReceivedMessage) -> int:
    """Returns which attempt this is, counted from 1 over SQS's receives and `retry_later`."""
    return message.attempt + message.receive_count


class _AsLines(logging.Handler):
    """Prints the consumer's warnings as lines, without those about a hook: its tries have lines already."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is None or not isinstance(record.exc_info[1], _NotTaken):
            print_error(record.getMessage())


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    logger, handler = logging.getLogger("tidewheel"), _AsLines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
