"""Provides the pytest fixture `local_tidewheel`, a fresh `LocalTidewheel` with the virtual clock for each test.

```python
def test_a_reminder_comes_after_three_days(local_tidewheel):
    tw = local_tidewheel.client()
    tw.create_topic("reminders")
    tw.create_subscription("reminders", "mailer")
    tw.send("reminders", "buy milk", delay="3d")
    local_tidewheel.advance(days=3)
    [message] = local_tidewheel.receive("reminders", "mailer")
    assert message.body == "buy milk"
```

pytest loads this module in every project of an environment, so it imports nothing until a test asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidewheel.local import LocalTidewheel


@pytest.fixture
def local_tidewheel() -> Iterator[LocalTidewheel]:
    """An open local stack, virtual clock at 2026-01-01T00:00:00Z, closed after the test."""
    from tidewheel.local import LocalTidewheel

    with LocalTidewheel() as stack:
        yield stack
