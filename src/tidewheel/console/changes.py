"""Carries out the forms of the pages. Each writes an audit line, and leads back to a page that tells the result."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from tidewheel import TooLate
from tidewheel.client.changes import Rescheduled
from tidewheel.client.finding import ChangedMessages, Selected
from tidewheel.client.operations.dead_letters import DeadLetter
from tidewheel.client.recurring import send_now
from tidewheel.client.sender import Sender
from tidewheel.console.reading import FORESEEN, reason
from tidewheel.console.text import BODY_IN_LISTS
from tidewheel.errors import InvalidValue, UnknownMessage
from tidewheel.model.duration import delay_ms, delay_of, read_time

if TYPE_CHECKING:
    from tidewheel.console.app import Console

_FORM_BYTES = 2_000_000
"""Of a form: SQS takes a message of 1 MiB, and a form writes most characters as one byte, some as three."""

_FORM_FIELDS = 2000
LETTERS_RECEIVED = 100
_SENT_KEPT = 100
_RESULTS_KEPT = 20
"""The newest results, each with what was typed, up to 2 MB."""

_audit = logging.getLogger("tidewheel.console.audit")


@dataclass(slots=True)
class Result:
    """The result of an action. An action that goes on in the background changes the text.

    Attributes:
        text: a sentence.
        good: whether the action succeeded.
        errors: field -> advice about its value.
        typed: field -> the typed text, kept if something is wrong.
        link: an address to go on, with its text.
        letters: dead letters that were looked at, with the beginnings of their bodies. None: nobody looked.
    """

    text: str
    good: bool = True
    errors: dict[str, str] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    link: tuple[str, str] | None = None
    running: bool = False
    letters: list[DeadLetter] | None = None


class Results:
    """The newest results, by a name that nobody can guess."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Result] = OrderedDict()

    def put(self, result: Result) -> str:
        """Keeps a result. Returns its name."""
        name = secrets.token_urlsafe(9)
        self._kept[name] = result
        if len(self._kept) > _RESULTS_KEPT:
            self._kept.popitem(last=False)
        return name

    def get(self, name: str | None) -> Result | None:
        """Returns a result, if it is still kept."""
        return self._kept.get(name or "")


Action = Callable[["Console", "Asked"], Result]


class Asked:
    """A form with the names in its address."""

    def __init__(self, request: Request, form: dict[str, list[str]]) -> None:
        self.topic: str = request.path_params.get("topic", "")
        self.subscription: str = request.path_params.get("subscription", "")
        self.id: str = request.path_params.get("id", "")
        self.many = form

    def value(self, name: str) -> str:
        """Returns a field without spaces around it, or nothing."""
        return self.many.get(name, [""])[0].strip()

    def when(self, *, needed: bool = False) -> dict[str, Any]:
        """Returns the arguments `delay` or `deliver_at`.

        Raises:
            InvalidValue: both are given, or the time cannot be read, or none is given and one is needed.
        """
        delay, at = self.value("delay"), self.value("deliver_at")
        if needed and not delay and not at:
            raise InvalidValue("delay", "", "give a delay such as 2h, or a time")
        if delay and at:
            raise InvalidValue("deliver_at", at, "give a delay or a time, not both")
        return {"deliver_at": time_of("deliver_at", at)} if at else {"delay": delay_of(delay) if delay else 0}

    def change(self) -> str:
        """Returns the change of several messages.

        Raises:
            InvalidValue: there is no such change.
        """
        do = self.value("do")
        if do not in ("cancel", "now", "reschedule"):
            raise InvalidValue("do", do, "choose cancel, now or reschedule")
        return do

    def check_typed(self, why: str) -> None:
        """Raises InvalidValue unless the topic's name was typed."""
        if self.value("typed") != self.topic:
            raise InvalidValue("typed", self.value("typed"), f"type the topic's name, {self.topic}, to {why}")


def time_of(field: str, text: str) -> datetime:
    """Reads a time. Without a zone it is UTC, as the page shows times.

    Raises:
        InvalidValue: it is none.
    """
    at = read_time(text)
    if at is None:
        raise InvalidValue(field, text, "give a time such as 2026-12-01T09:00Z or 2026-12-01 09:00 UTC")
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


async def change(console: Console, action: tuple[str, Action], request: Request) -> Response:
    """Carries out a form, unless the console is read-only."""
    name, act = action
    if not console.may_change:
        return PlainTextResponse(
            "Refused: this console is read-only. Start it with --allow-changes.\n", status_code=403
        )
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES:
            return PlainTextResponse(f"Refused: a form has at most {_FORM_BYTES:,} bytes.\n", status_code=413)
    try:
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_FORM_FIELDS)
    except ValueError:
        return PlainTextResponse(f"Refused: a form has at most {_FORM_FIELDS:,} fields.\n", status_code=413)
    asked = Asked(request, form)
    result = await run_in_threadpool(_outcome, console, name, act, asked)
    back = _back(asked, request.url.path)
    console.forget()
    joined = "&" if "?" in back else "?"
    return RedirectResponse(f"{back}{joined}result={console.results.put(result)}", status_code=303)


def _outcome(console: Console, name: str, act: Action, asked: Asked) -> Result:
    typed = {field: values[0] for field, values in asked.many.items()}
    try:
        with console.reader.page():
            result = act(console, asked)
    except InvalidValue as error:
        told = f"Not done. {error.field.replace('_', ' ').capitalize()}: {error.advice}."
        result = Result(told, good=False, errors={error.field: error.advice}, typed=typed)
    except FORESEEN as error:
        result = Result(reason(error), good=False, typed=typed)
    except Exception:  # the page tells it, the log has it, and the next form is answered
        _audit.exception("%s failed", name)
        result = Result(f"{name} failed by a defect of the console: its log has the details", good=False, typed=typed)
    audit(console, name, asked, result)
    return result


def audit(console: Console, name: str, asked: Asked, result: Result) -> None:
    """Writes the audit line: person, action, time and result. Bodies and attributes are not in it."""
    named = {"topic": asked.topic or asked.value("topic"), "subscription": asked.subscription, "id": asked.id}
    named |= {field: asked.value(field) for field in ("do", "delay", "deliver_at", "key", "q", "by", "from", "group")}
    named |= {name: " ".join(asked.many.get(name, [])) for name in ("ids", "letter", "letters")}
    line = {
        "audit": name,
        "who": console.who,
        "at": console.now().isoformat(timespec="milliseconds"),
        **{field: value for field, value in named.items() if value},
        "done": None if result.running else result.good,
        "result": result.text if result.link is None else f"{result.text} {result.link[1]}",
    }
    _audit.info("%s", json.dumps(line))


def _back(asked: Asked, path: str) -> str:
    """Returns the page to show next: that of the form, never another site."""
    back = asked.value("back")
    if back.startswith("/") and not back.startswith("//") and "\\" not in back and back.isprintable():
        parts = urlsplit(back)
        rest = [(name, value) for name, values in parse_qs(parts.query).items() for value in values if name != "result"]
        return quote(parts.path, safe="/%") + ("?" + urlencode(rest) if rest else "")
    pieces = path.strip("/").split("/")
    depth = 4 if len(pieces) == 5 and pieces[2] == "messages" else 2
    return "/" + "/".join(pieces[:depth]) if pieces[0] == "topics" and len(pieces) > 1 else "/"


# ---- the actions


def _send(console: Console, asked: Asked) -> Result:
    topic = asked.topic or asked.value("topic")
    body = asked.many.get("body", [""])[0].replace("\r\n", "\n")  # a browser sends each line break as two characters
    key = asked.value("key") or None
    receipt = console.client.send(topic, body, key=key, **asked.when())
    link = (f"/topics/{quote(topic, safe='')}/messages/{receipt.id}", receipt.id)
    notes = "" if key is None else " If another message with its key waits, it is dropped."
    if console.reader.read(console.client.subscriptions, topic).value == []:
        notes += " The topic has no subscription: nobody gets it."
    console.topic, console.sent = topic, dict([*console.sent.items(), (receipt.id, console.now())][-_SENT_KEPT:])
    told = f"Sent. It is due at {receipt.deliver_at:%Y-%m-%d %H:%M:%S} UTC. It is being taken in: for up to five"
    return Result(f"{told} minutes, no page counts it.{notes} Its id is", link=link)


def _purge(console: Console, asked: Asked) -> Result:
    asked.check_typed("purge it")
    done = console.client.purge(asked.topic)
    return Result(f"Purged {asked.topic}. Messages dropped: about {done.messages:,}. Messages in queues still come.")


def _pause(console: Console, asked: Asked) -> Result:
    console.client.pause(asked.topic, asked.subscription)
    return Result(f"{asked.subscription} is paused. Its messages are kept, and come when it is resumed.")


def _resume(console: Console, asked: Asked) -> Result:
    console.client.resume(asked.topic, asked.subscription)
    return Result(f"{asked.subscription} is resumed.")


def _redrive(console: Console, asked: Asked) -> Result:
    moved = console.client.redrive(asked.topic, asked.subscription)
    return Result(f"Dead letters of {asked.subscription} that go back to its queue: about {moved.messages:,}.")


def _look(console: Console, asked: Asked) -> Result:
    """Receives dead letters, and leaves them in the queue."""
    found = console.client.dead_letters(asked.topic, asked.subscription, LETTERS_RECEIVED)
    short = [replace(each, body=each.body[: BODY_IN_LISTS + 1]) for each in found]
    told = f"Dead letters of {asked.subscription} that were looked at: {len(found)}."
    return Result(told, letters=short)


def _settle(console: Console, asked: Asked, *, again: bool) -> Result:
    """Redrives or deletes the letters of a group, one letter, or those that are ticked, of one or more queues."""
    chosen: dict[tuple[str, str], dict[str, Any]] = {}
    group = asked.many.get("group", [])[:1]
    for each in group or asked.many.get("letter") or asked.many.get("letters", []):
        topic, name, rest = [*each.split("/", 2), "", ""][:3]
        if group:
            chosen[topic, name] = {"cause": rest}
        else:
            chosen.setdefault((topic, name), {"ids": []})["ids"].append(rest)
    if not chosen:
        raise InvalidValue("letters", "", "tick at least one letter")
    done, client = 0, console.client
    for (topic, name), which in chosen.items():
        if again:
            done += client.redrive(topic, name, **which).messages
        else:
            done += client.delete_dead_letters(topic, name, **which)
    return Result(f"Letters that {'went back to their queue' if again else 'were deleted'}: {done}.", good=done > 0)


def _cancel(console: Console, asked: Asked) -> Result:
    answer = console.client.cancel(asked.topic, asked.id)
    if isinstance(answer, TooLate):
        return Result(f"Too late: {answer.reason}.", good=False)
    return Result("Cancelled. It never comes.")


def _reschedule(console: Console, asked: Asked) -> Result:
    return _moved(asked, console.client.reschedule(asked.topic, asked.id, **asked.when(needed=True)))


def _now(console: Console, asked: Asked) -> Result:
    return _moved(asked, console.client.deliver_now(asked.topic, asked.id))


def _moved(asked: Asked, outcome: object) -> Result:
    if isinstance(outcome, Rescheduled):
        link = (f"/topics/{quote(asked.topic, safe='')}/messages/{outcome.receipt.id}", outcome.receipt.id)
        return Result(
            f"Moved. It is due at {outcome.receipt.deliver_at:%Y-%m-%d %H:%M:%S} UTC. Its new id is", link=link
        )
    if isinstance(outcome, TooLate):
        return Result(f"Too late: {outcome.reason}.", good=False)
    return Result("It was cancelled before, and is not moved.", good=False)


def _selected(console: Console, asked: Asked) -> Result:
    """Cancels or moves the messages that are ticked, each by itself."""
    ids = asked.many.get("ids", [])
    if not ids:
        raise InvalidValue("ids", "", "tick at least one message")
    do = asked.change()
    verb = "Cancelled" if do == "cancel" else "Moved"
    when = {"delay": 0} if do == "now" else asked.when(needed=do == "reschedule")
    done = tried = 0
    stopped = ""
    try:
        if do == "cancel":
            results = console.client.cancel_many(asked.topic, ids)
            done, tried = sum(map(bool, results)), len(results)
        else:
            for id in ids:
                with suppress(UnknownMessage):
                    done += isinstance(console.client.reschedule(asked.topic, id, **when), Rescheduled)
                tried += 1
    except InvalidValue:
        if not done:
            raise
        stopped = " Then it stopped: a value is not valid."
    except FORESEEN as error:
        stopped = f" Then it stopped: {reason(error)}"
    told = f" Too late or gone: {tried - done}." if tried > done else ""
    return Result(f"{verb} {done} of {len(ids)} selected.{told}{stopped}", good=done > 0 and not stopped)


def selection(by: str, q: str, first: str) -> Selected:
    """Returns the filter of a view, for `find`, `cancel_where` and `reschedule_where`.

    Raises:
        InvalidValue: the time cannot be read, or the filter names one message by its id or its key.
    """
    if by != "prefix" and q:
        raise InvalidValue("by", by, "select by a key prefix or a time")
    chosen = Selected()
    if q:
        chosen["key_prefix"] = q
    if first:
        chosen["first"] = time_of("from", first)
    if not chosen:
        chosen["everything"] = True
    return chosen


def _matching(console: Console, asked: Asked) -> Result:
    """Changes all messages of the view's filter, in the background. The result tells how far it has come."""
    chosen, do = selection(asked.value("by"), asked.value("q"), asked.value("from")), asked.change()
    asked.check_typed("change all of these")
    if do == "cancel":
        verb, start = "Cancelled", partial(console.client.cancel_where, asked.topic, **chosen)
    else:
        later = asked.value("delay")
        if do == "reschedule":
            delay_ms(delay_of(later), "delay")
        how: dict[str, Any] = {"delay": 0} if do == "now" else {"by": delay_of(later)}
        verb, start = "Moved", partial(console.client.reschedule_where, asked.topic, **how, **chosen)
    result = Result(f"{verb} 0 so far.", running=True)

    def tell(found: ChangedMessages) -> None:
        result.text = f"{verb} {found.done:,} of {found.matched:,} so far."

    def run() -> None:
        try:
            found = start(progress=tell)
            late = found.too_late + found.gone
            result.text = f"{verb} {found.done:,} of {found.matched:,}. Too late or gone: {late:,}."
        except FORESEEN as error:
            result.text, result.good = f"{result.text} Then it stopped: {reason(error)}", False
        except Exception:
            _audit.exception("%s matching failed", do)
            result.text, result.good = f"{result.text} Then it failed by a defect: the console's log has it.", False
        result.running = False
        console.forget()
        audit(console, f"{do} matching, ended", asked, result)

    threading.Thread(target=run, name="tidewheel-console-change", daemon=True).start()
    return result


def _move_time(console: Console, asked: Asked) -> Result:
    if console.local is None:
        raise InvalidValue("by", asked.value("by"), "only the time of a local service can be moved")
    ms = delay_ms(delay_of(asked.value("by")), "by")
    console.local.move_time(ms / 1000)
    return Result(f"The time is {console.now():%Y-%m-%d %H:%M:%S} UTC now. All that was due until then has happened.")


def _cancel_recurring(console: Console, asked: Asked) -> Result:
    console.client.cancel_recurring(asked.topic, asked.value("key"))
    return Result(f"{asked.value('key')} is ended. Occurrences whose slots are sealed may still come.")


def _send_recurring(console: Console, asked: Asked) -> Result:
    core, key = console.client.core, asked.value("key")
    send = Sender(core, core.cache.state(asked.topic)).send_checked
    id = send_now(core.connection.storage, send, asked.topic, key, core.clock.now_ms())
    return Result(f"Sent {key} once, now. Its id is", link=(f"/topics/{quote(asked.topic, safe='')}/messages/{id}", id))


ACTIONS: dict[str, tuple[str, Action]] = {
    "/send": ("send", _send),
    "/time": ("move time", _move_time),
    "/topics/{topic}/send": ("send", _send),
    "/topics/{topic}/purge": ("purge", _purge),
    "/topics/{topic}/subscriptions/{subscription}/pause": ("pause", _pause),
    "/topics/{topic}/subscriptions/{subscription}/resume": ("resume", _resume),
    "/topics/{topic}/subscriptions/{subscription}/redrive": ("redrive", _redrive),
    "/topics/{topic}/subscriptions/{subscription}/look": ("look", _look),
    "/topics/{topic}/messages/selected": ("change selected", _selected),
    "/topics/{topic}/messages/matching": ("change matching", _matching),
    "/topics/{topic}/messages/{id}/cancel": ("cancel", _cancel),
    "/topics/{topic}/messages/{id}/reschedule": ("reschedule", _reschedule),
    "/topics/{topic}/messages/{id}/now": ("deliver now", _now),
    "/topics/{topic}/recurring/cancel": ("cancel recurring", _cancel_recurring),
    "/topics/{topic}/recurring/now": ("send recurring now", _send_recurring),
    "/dead/redrive": ("redrive chosen", partial(_settle, again=True)),
    "/dead/delete": ("delete dead letters", partial(_settle, again=False)),
}
