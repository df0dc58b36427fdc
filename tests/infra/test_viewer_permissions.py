"""The console with the policy of a viewer: each page comes whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.asgi import ask
from tests.iam.iam_policy import Request, allowed
from tests.infra.needed_grants import matching
from tests.infra.test_client_permissions import World, all_dead, damage, shown, something_dead
from tests.infra.variants import DEDICATED, MINE, OTHER, local_template_of
from tidewheel import console
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.policies import Statement, viewer_statements

pytestmark = pytest.mark.long

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
        damage(stack, OTHER, "mail", 1)
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


@pytest.fixture(scope="module")
def world() -> Iterator[Viewed]:
    with LocalTidewheel(template=local_template_of(DEDICATED)) as stack, pytest.MonkeyPatch.context() as patch:
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
    assert unused == []
