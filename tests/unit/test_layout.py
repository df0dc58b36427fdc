"""Tests the errors after a read of a newer data layout."""

from __future__ import annotations

import json
import zlib

import pytest

import tidewheel
from tests.contract.builders import a_state
from tidewheel.errors import TidewheelError, UnsupportedLayout
from tidewheel.model.checkpoint import checkpoint_of, decode_checkpoint, encode_checkpoint
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.plan import decode_plan
from tidewheel.model.topic_state import LAYOUT, check_layout
from tidewheel.storage.items import decode_topic_state, encode_topic_state


def test_the_error_is_one_of_the_package_and_names_topic_layout_and_remedy() -> None:
    assert tidewheel.UnsupportedLayout is UnsupportedLayout and issubclass(UnsupportedLayout, TidewheelError)
    with pytest.raises(UnsupportedLayout) as raised:
        check_layout("orders", LAYOUT + 3)
    assert str(raised.value) == (
        f"the data of topic 'orders' has layout {LAYOUT + 3}, and this release reads layouts up to {LAYOUT}; nothing "
        "was changed; upgrade Tidewheel in this client, or in the stack's functions"
    )
    check_layout("orders", LAYOUT)


def test_a_topic_state_of_layout_1_has_no_attribute_for_it_and_absent_is_read_as_1() -> None:
    item = encode_topic_state(a_state())
    assert "layout" not in item and decode_topic_state(item).layout == 1


def test_a_newer_layout_is_told_before_anything_else_of_the_topic_state_is_read() -> None:
    item = {"pk": {"S": "T#orders"}, "sk": {"S": "STATE"}, "v": {"N": "9"}, "layout": {"N": str(LAYOUT + 1)}}
    with pytest.raises(UnsupportedLayout, match="orders"):
        decode_topic_state(item)


def test_a_checkpoint_of_a_newer_layout_is_not_taken_for_a_damaged_one() -> None:
    data = encode_checkpoint(checkpoint_of(a_state(), (), (), (), 1))
    document = json.loads(zlib.decompress(opened(data))) | {"v": LAYOUT + 1}
    with pytest.raises(UnsupportedLayout, match=f"topic 'orders' has layout {LAYOUT + 1}"):
        decode_checkpoint(sealed(zlib.compress(json.dumps(document).encode())))


def test_what_a_newer_release_adds_to_a_manifest_is_passed_over() -> None:
    document = {
        "v": 1,
        "objects": ["ledgers/orders/a"],
        "segments": [[0, 4, 100, 5, 500, 1000, 2000, 5, "newer"]],
        "cancelled": [],
        "part_rows": 10,
        "newer": {},
    }
    plan = decode_plan("orders", 1, 2, sealed(zlib.compress(json.dumps(document).encode())))
    assert plan.due_rows == 5 and plan.segments[0].segment.length == 100
