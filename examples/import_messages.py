"""Import a file of reminders, without sending any of them."""

# region import
import json
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from tidewheel.local import LocalTidewheel


def write_reminders(path: Path, start: datetime) -> None:
    """Writes two reminders, and one without a time."""
    rows = [
        {"due": (start + timedelta(days=1)).isoformat(), "text": {"customer": "c-1"}, "tags": {"kind": "renewal"}},
        {"due": (start + timedelta(days=3)).timestamp(), "text": {"customer": "c-2"}},
        {"due": None, "text": {"customer": "c-3"}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    """Imports twice, the second time without effect, and receives."""
    with LocalTidewheel() as stack, TemporaryDirectory() as folder:
        tw = stack.client()
        tw.create_topic("reminders")
        tw.create_subscription("reminders", "mailer")
        path = Path(folder) / "reminders.jsonl"
        write_reminders(path, stack.now())

        columns = {"deliver_at": "due", "body": "text", "attributes": "tags"}
        report = stack.run_job("import_messages", topic="reminders", input=str(path), **columns)
        print(report.imported, dict(report.rejected))  # 2 {'due is missing': 1}
        again = stack.run_job("import_messages", topic="reminders", input=str(path), **columns)
        print(again.imported, again.skipped)  # 0 3

        stack.advance(days=3, seconds=2)
        print([message.json() for message in stack.receive("reminders", "mailer")])


if __name__ == "__main__":
    main()
# endregion
