"""A topic whose item cannot be read is told, and hides no other topic."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.behaviour.topic import Here
from tests.console.asgi import ask
from tidewheel import console
from tidewheel.cli.main import app
from tidewheel.local import MemoryTidewheel
from tidewheel.storage import table_keys


@pytest.mark.parametrize(
    ("forged", "told", "remedy"),
    [
        ({"layout": {"N": "99"}}, "has layout 99, and this release reads layouts up to", "Upgrade Tidewheel"),
        ({"v": {"N": "99"}}, "has version 99", "Upgrade Tidewheel"),
        ({"settings": {"S": "{"}}, "is not readable", "tidewheel rebuild bad --replace"),
    ],
)
def test_a_topic_that_cannot_be_read_is_one_row_that_tells_what_to_do(
    forged: dict[str, dict[str, str]], told: str, remedy: str
) -> None:
    with MemoryTidewheel() as stack:
        client, table = stack.client(), stack.service.topic_states._table
        for topic in ("bad", "orders"):
            client.create_topic(topic)
            client.create_subscription(topic, "mail")
        pk, sk = table_keys.topic_state_key("bad")
        item = table._client.get_item(TableName=table._name, Key={"pk": {"S": pk}, "sk": {"S": sk}})["Item"]
        table._client.put_item(TableName=table._name, Item=item | forged)
        client = stack.client()
        bad, orders = client.topics()
        assert (bad.name, orders.name, orders.problem) == ("bad", "orders", None)
        assert told in str(bad.problem)
        page = ask(console.app(client), "/").text
        assert page.count('href="/topics/orders"') == 1 and told in page
        [finding] = client.health()
        assert (finding.topic, finding.remedy, told in finding.what) == ("bad", remedy, True)
        assert finding.remedy in ask(console.app(client), "/trouble").text
        listed = CliRunner().invoke(app, ["topics", "list"], obj=Here(made=client))
        assert listed.exit_code == 0 and told in listed.stdout and "orders" in listed.stdout
