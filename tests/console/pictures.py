"""Makes the pictures of the docs, with `python -m tests.console.pictures`.

Each screen in light and dark, and a short recording of a message that is sent and arrives. This needs
chromium-headless-shell, and Pillow, which is no dependency: pictures are made seldom.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.console.conftest import CHROMIUM, NO_SANDBOX
from tests.console.site import Site, tab
from tidewheel.client.consumer import Consumer
from tidewheel.model.message import Message
from tidewheel.shipped import EXAMPLES, shipped

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"
COLORS = 96
"""Of each picture: the pages have few."""
FRAME_MS = 900


def fill(site: Site) -> dict[str, str]:
    """Sends real messages. Returns the address of each screen."""
    tw, stack = site.client, site.stack
    for name in ("orders", "emails", "retries"):
        short = {"slot_s": 5, "lookahead_s": 20} if name == "retries" else {}
        tw.create_topic(name, **short)  # type: ignore[arg-type]
        tw.create_subscription(name, "billing", visibility_timeout_s=30)
    tw.create_subscription("orders", "fraud", filter_policy={"amount": ["large"]})
    with gzip.open(shipped(EXAMPLES) / "messages.jsonl.gz", "rt", encoding="utf-8") as lines:
        samples = [json.loads(line) for line in lines][:3000]
    tw.send_many(
        "orders",
        [
            Message(body=each["payload"], delay=60 + 1.0032**number * 9000, key=f"cart-{number:04}")
            for number, each in enumerate(samples)
        ],
    )
    tw.send_many("emails", [Message(body=each["payload"], delay=3600 + each["offset_s"]) for each in samples[:500]])
    tw.send_many("retries", [Message(body=f"payment {n}", delay=90 + n) for n in range(120)])
    tw.send_many("retries", [Message(body=f"payment {n}", delay=5 + n) for n in range(4)])
    tw.send_recurring("orders", "daily-report", {"report": "orders"}, cron="0 9 * * MON-FRI", timezone="Europe/Berlin")
    tw.send_recurring("orders", "cleanup", {"older_than": "30d"}, every="6h")
    shown = tw.send(
        "orders",
        {"order": 4711, "customer": "ACME", "text": "The invoice of 31 October is due."},
        delay="3d",
        key="invoice-4711",
        attributes={"kind": "reminder", "tenant": "acme"},
    )
    stack.advance(seconds=30)
    consumer = Consumer(tw, "retries", "billing", max_attempts=1)
    for message in consumer.receive(max_messages=3):
        try:
            raise ValueError("the card was declined")
        except ValueError:
            consumer.retry_later(message)
    tw.pause("retries", "billing")
    stack.advance(minutes=5)
    return {
        "overview": "/",
        "topic": "/topics/orders",
        "messages": "/topics/orders/messages?by=prefix&q=cart-1",
        "message": f"/topics/orders/messages/{shown.id}",
        "trouble": "/trouble",
        "recurring": "/topics/orders/recurring",
        "dead": "/topics/retries/dead",
        "cost": "/cost",
    }


def small(picture: bytes) -> Any:
    """Returns a picture with few colours."""
    from PIL import Image

    return Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)


def record(site: Site, browser: Browser) -> None:
    """Records how a message is sent, waits, and arrives."""
    frames = []
    with tab(site, browser, viewport={"width": 900, "height": 1040}) as opened:
        page = opened.go("/topics/retries")

        def look(count: int = 1) -> None:
            page.wait_for_timeout(150)
            frames.extend([page.screenshot()] * count)

        page.get_by_role("button", name="Resume billing").click()
        page.wait_for_url("**result=*")
        page = opened.go("/topics/retries")
        look(2)
        _type(page, "Body", '{"order": 4711}', look)
        _type(page, "Delay", "15m", look)
        page.get_by_role("button", name="Send a message").click()
        page.wait_for_url("**result=*")
        look(2)
        site.stack.advance(seconds=12)
        page.get_by_role("row", name="1 h 1").first.wait_for()
        look(3)
        for _ in range(3):
            site.stack.advance(minutes=5)
            page.wait_for_timeout(1500)
            look(2)
        look(2)
    first, *rest = [small(each) for each in frames]
    first.save(IMAGES / "console.gif", save_all=True, append_images=rest, duration=FRAME_MS, loop=0, optimize=True)


def _type(page: Page, label: str, text: str, look: Any) -> None:
    page.get_by_label(label).fill(text)
    look()


def main() -> None:
    """Makes all pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=NO_SANDBOX)
        site = Site()
        screens = fill(site)
        for scheme in ("light", "dark"):
            with tab(site, browser, color_scheme=scheme, viewport={"width": 1280, "height": 800}) as opened:
                for name, path in screens.items():
                    page = opened.go(path)
                    page.get_by_role("status", name="Live").get_by_text("live", exact=True).wait_for()
                    picture = small(page.screenshot(full_page=name in ("overview", "message", "trouble", "dead")))
                    picture.save(IMAGES / f"console-{name}-{scheme}.png", optimize=True)
        record(site, browser)
        site.close()
        browser.close()
    for each in sorted(IMAGES.glob("console*")):
        sys.stdout.write(f"{each.name} {each.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
