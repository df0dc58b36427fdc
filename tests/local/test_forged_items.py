"""Items forged by a sender under the policy of an earlier release, which allowed every attribute."""

from __future__ import annotations

from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message, MessageId
from tidewheel.model.settings import ServiceSettings, parameter_name
from tidewheel.storage import layout


def test_what_a_sender_forged_under_an_older_policy_stops_its_own_message_alone() -> None:
    with LocalTidewheel() as stack:
        client, dynamodb = stack.client(), stack.session.client("dynamodb")
        for topic in ("orders", "other"):
            client.create_topic(topic)
            client.create_subscription(topic, "mail")
        parameter = stack.session.client("ssm").get_parameter(Name=parameter_name("tidewheel"))
        table = ServiceSettings.from_json(parameter["Parameter"]["Value"], "the parameter").table
        newer = {name: {"N": "99"} for name in ("v", "layout", "sent_ms", "seq")}
        checked = {"check_shard": {"S": layout.check_shard("other")}, "next_check_ms": {"N": "0"}}
        for pk, sk in (
            layout.key_key("orders", "forged"),
            layout.tombstone_key("orders", 5_000_000, MessageId("0" * 26)),
            *((pk, layout.STATE) for pk in layout.partitions("orders")[1:]),
        ):
            dynamodb.put_item(TableName=table, Item={"pk": {"S": pk}, "sk": {"S": sk}} | newer | checked)
        messages = [Message(body=body, delay="2h", key=body) for body in ("forged", "honest")]
        client.send_many("orders", messages)
        client.send("other", "healed", delay="2h")
        assert [each.name for each in client.topics()] == ["orders", "other"]
        stack.advance(minutes=10)
        stack.drop_schedules = True
        stack.advance(hours=3)
        assert [each.body for each in stack.receive("orders", "mail")] == ["honest"]
        assert [each.body for each in stack.receive("other", "mail")] == ["healed"]
        stack.advance(hours=25)  # with the daily work
        assert stack.failures == []
