"""The console with the policy of a viewer: each page comes whole, and no form changes anything."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from infra.local_template import normalized
from tests.console.asgi import Answer, ask
from tests.iam_requests import requests_of
from tests.infra.dedicated import synthesized
from tests.infra.needed_grants import matching
from tests.infra.test_client_enforcement import client_of
from tests.infra.test_client_permissions import MINE, OTHER, World, all_dead, set_aside, shown, something_dead
from tidewheel import console
from tidewheel.client.queue_tags import STACK_TAG
from tidewheel.console.changes import ACTIONS
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.iam_policy import Request, allowed
from tidewheel.local.emulator.iam_resources import asked
from tidewheel.model.message import Message
from tidewheel.policies import Statement, viewer_statements

PAUSED = "letters"
PAGES = (
    *("/", "/?after=a", "/trouble", "/cost", "/cost?per_day=1000&delay_mean=3d&size=100"),
    *(f"/topics/{MINE}", f"/topics/{MINE}?after={{ledger}}", f"/topics/{PAUSED}"),
    *(f"/topics/{MINE}/messages", f"/topics/{MINE}/messages?after={{waiting}}"),
    *(f"/topics/{MINE}/messages?{query}" for query in ("from={tomorrow}", "by=id&q={waiting}", "by=key&q=cart-17")),
    *(f"/topics/{MINE}/messages?by=prefix&q=bulk-{more}" for more in ("", "&after=bulk-30")),
    *(f"/topics/{MINE}/messages/{{{name}}}" for name in ("waiting", "large", "cancelled", "moved", "sealed", "done")),
    *(f"/topics/{MINE}/messages/{{waiting}}/body", f"/topics/{PAUSED}/messages/{{planned}}"),
    *(f"/topics/{MINE}/recurring", f"/topics/{MINE}/dead", f"/topics/{MINE}/dead?look=mail", f"/topics/{OTHER}"),
)
"""Each address of the console, with what else changes what is read."""
FORMS = {
    "/send": {"topic": MINE, "body": "x", "delay": "3d", "key": "k"},
    f"/topics/{MINE}/send": {"body": "x", "delay": "3d"},
    f"/topics/{MINE}/purge": {"typed": MINE},
    f"/topics/{MINE}/subscriptions/mail/pause": {},
    f"/topics/{PAUSED}/subscriptions/mail/resume": {},
    f"/topics/{MINE}/subscriptions/mail/redrive": {},
    f"/topics/{MINE}/subscriptions/mail/look": {},
    f"/topics/{MINE}/messages/selected": {"ids": "{waiting}", "do": "cancel"},
    f"/topics/{MINE}/messages/matching": {"by": "prefix", "q": "bulk-", "do": "cancel", "typed": MINE},
    f"/topics/{MINE}/messages/{{waiting}}/cancel": {},
    f"/topics/{MINE}/messages/{{waiting}}/reschedule": {"delay": "3d"},
    f"/topics/{MINE}/messages/{{waiting}}/now": {},
    f"/topics/{MINE}/recurring/cancel": {"key": "report"},
}
"""Each form that changes the stack, or receives from it, by its address."""
DENIED = "your credentials do not allow"
DENIED_READS = (DENIED, "AccessDenied", "queue cannot be read", "queue, or it cannot", "could not be read", "defect")


class Viewed(World):
    """A stack with a bit of everything, and the requests of each page."""

    def __init__(self, stack: LocalTidewheel) -> None:
        super().__init__(stack)
        tw = stack.client()
        self.named: dict[str, str] = {"done": tw.send(MINE, "done", delay="1h").id}
        stack.advance(hours=2)
        tw.send_recurring(MINE, "report", "x", every="1d")
        tw.send_many(MINE, [Message(body="x", delay=90_000 + i, key=f"bulk-{i:02}") for i in range(60)])
        self.named |= {
            "waiting": tw.send(MINE, "waits", delay="2d", key="cart-17").id,
            "large": tw.send(MINE, "x" * 2_000_000, delay="2d").id,
            "cancelled": tw.send(MINE, "x", delay="2d").id,
            "moved": tw.send(MINE, "x", delay="2d").id,
            "tomorrow": f"{stack.now():%Y-%m-%dT%H:%MZ}",
        }
        tw.send(OTHER, "damaged", delay="2d")
        tw.pause(PAUSED, "mail")
        tw.send(PAUSED, "parked")
        self.named["planned"] = tw.send(PAUSED, "planned", delay="2h").id
        stack.advance(minutes=6)
        tw.cancel(MINE, self.named["cancelled"])
        tw.reschedule(MINE, self.named["moved"], delay="3d")
        stack.advance(hours=3)
        self.named["sealed"] = tw.send(MINE, "sealed", delay="1m").id
        self.named["ledger"] = tw.ledgers(MINE)[0].after
        something_dead(self, MINE)
        set_aside(stack, OTHER, "mail", "one")
        all_dead(self, MINE)
        self.asked: dict[str, list[Request]] = {}

    def requests(self, page: str) -> list[Request]:
        """Returns the requests of a page."""
        if page not in self.asked:
            application = console.app(self.stack.client())
            self.notes.clear()
            assert ask(application, page.format(**self.named)).status == 200, page
            self.asked[page] = list(self.notes)
        return self.asked[page]

    @property
    def statements(self) -> list[Statement]:
        """A viewer's statements."""
        return viewer_statements(self.settings)

    def content(self) -> Any:
        """Everything that is stored: items, objects and messages."""
        session = self.stack._emulator.session()
        objects = session.client("s3").list_objects_v2(Bucket=self.settings.s3_bucket)["Contents"]
        queues = session.client("sqs").list_queues()["QueueUrls"]
        messages = {url: len(self.stack.queue(url).everything) for url in queues}
        items = session.client("dynamodb").scan(TableName=self.settings.table)["Items"]
        return items, [(each["Key"], each["ETag"]) for each in objects], messages


@pytest.fixture(scope="module")
def world() -> Iterator[Viewed]:
    with LocalTidewheel(template=normalized(synthesized(MINE, OTHER))) as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
        yield Viewed(stack)


@pytest.mark.parametrize("page", PAGES)
def test_every_request_of_a_page_is_allowed(world: Viewed, page: str) -> None:
    assert [each for each in world.requests(page) if not allowed(world.statements, each)] == []


def test_nothing_that_a_viewer_is_given_is_unused(world: Viewed) -> None:
    requests = {each for page in PAGES for each in world.requests(page)}
    unused = [
        f"{action} on {shown(world, single)}"
        for statement in world.statements
        for action in statement["Action"]
        for resource in statement["Resource"]
        if not any(matching([single := {**statement, "Action": [action], "Resource": [resource]}], e) for e in requests)
    ]
    assert unused == ["dynamodb:Scan on table/T"], "needed only while the list of topics is not complete"


def test_a_viewer_is_given_reads_alone(world: Viewed) -> None:
    given = {action for statement in world.statements for action in statement["Action"]}
    assert {action for action in given if not re.search(r":(BatchGet|Get|Query|Scan|Decrypt)", action)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_comes_whole_with_a_viewer_s_credentials(world: Viewed, page: str) -> None:
    answer = ask(console.app(client_of(world, world.statements)), page.format(**world.named))
    assert answer.status == 200
    assert [each for each in DENIED_READS if each in answer.text] == []


def test_these_are_all_forms_that_need_more_than_a_viewer_s_rights() -> None:
    def form(path: str) -> str:
        return re.sub(r"\{\w+\}|(?<=/topics/)\w+|(?<=/subscriptions/)\w+", "*", path)

    assert {form(path) for path in FORMS} == {form(path) for path in ACTIONS} - {"/time"}


@pytest.mark.parametrize("path", FORMS)
def test_a_form_with_a_viewer_s_credentials_tells_that_they_do_not_allow_it_and_changes_nothing(
    world: Viewed, path: str
) -> None:
    before = world.content()
    application = console.app(client_of(world, world.statements), changes=True)
    form = {name: value.format(**world.named) for name, value in FORMS[path].items()}
    sent = ask(application, path.format(**world.named), form)
    assert sent.status == 303, sent.text
    told = settled(application, sent.headers["location"])
    assert DENIED in told.text
    assert world.content() == before


def settled(application: Any, path: str) -> Answer:
    """Gets a page until it tells the end of what goes on in the background."""
    until = time.monotonic() + 30
    while "It goes on." in (answer := ask(application, path)).text:
        assert time.monotonic() < until
    return answer


def test_a_viewer_reads_the_depths_of_the_stack_s_queues_and_of_those_that_are_named_only(world: Viewed) -> None:
    session = world.stack._emulator.session()
    others = session.client("sqs").create_queue(QueueName="others", tags={STACK_TAG: "tidewheel-eu"})["QueueUrl"]

    def may(url: str, *named: str) -> bool:
        asked_ = requests_of("sqs", "GetQueueAttributes", {"QueueUrl": url})
        given = viewer_statements(world.settings, queues=named)
        return all(allowed(given, each) for request in asked_ for each in asked(request))

    own = [world.queue_url(MINE), f"{world.queue_url(MINE)}-dead", *world.settings.own_queue_urls]
    assert all(may(url) for url in own)
    assert not may(others)
    assert may(others, others)
