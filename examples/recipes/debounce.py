"""Debounce: a document is indexed 30 seconds after its last change, and at latest ten minutes after the first."""

# region recipe
from tidewheel import Tidewheel


def set_up(tw: Tidewheel) -> None:
    tw.create_topic("reindex")
    tw.create_subscription("reindex", "indexer", reader="tidewheel")


def changed(tw: Tidewheel, document: str) -> None:
    """Indexes a document 30 s after its last change, and at latest ten minutes after the first."""
    tw.send("reindex", {"document": document}, delay="30s", key=document, replace=True, max_wait="10m")


# endregion


def test_many_changes_make_few_messages() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    set_up(tw)
    start, came = stack.now(), []
    for second in range(0, 13 * 60, 10):
        if second % 20 == 0 and second <= 11 * 60:
            changed(tw, "a.md")  # every 20 s for eleven minutes
        stack.advance(seconds=10)
        came += [(stack.now() - start).seconds for _ in stack.receive("reindex", "indexer")]
    assert came == [600, 690]
