"""The SQS clients in memory and of the local stack answer as moto's. Separate tests cover behaviour missing in moto."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.builders import a_message_id
from tidewheel.clock import ManualClock
from tidewheel.errors import QueueUnavailable, SqsError
from tidewheel.flows.ports import QueueMessage
from tidewheel.local.emulator import Emulator
from tidewheel.local.emulator.patching import MotoTime
from tidewheel.memory import MemoryService, MemorySqs, MemorySqsClient
from tidewheel.memory.service import memory_queues
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.received import header_text

START_MS = 1_767_225_600_000
GONE = "https://sqs.eu-west-1.amazonaws.com/123456789012/gone"
HEADER = {"DataType": "String", "StringValue": "header"}
BINARY = {"DataType": "Binary", "BinaryValue": b"\x00\xff"}
_numbers = itertools.count()


@dataclass(kw_only=True)
class SqsUnderTest:
    """A client with its clock."""

    client: Any
    clock: ManualClock

    def queue(self, **attributes: Any) -> str:
        """Makes a queue with these attributes."""
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in attributes.items()}
        return str(self.client.create_queue(QueueName=f"q-{next(_numbers)}", Attributes=texts)["QueueUrl"])

    def arn(self, url: str) -> str:
        return str(
            self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        )

    def send(self, url: str, *bodies: str, **more: Any) -> None:
        for body in bodies:
            self.client.send_message(QueueUrl=url, MessageBody=body, **more)

    def receive(self, url: str, **more: Any) -> list[Any]:
        request = {"MaxNumberOfMessages": 10, **more}
        return list(self.client.receive_message(QueueUrl=url, **request).get("Messages", []))

    def bodies(self, url: str, **more: Any) -> list[str]:
        return [message["Body"] for message in self.receive(url, **more)]

    def depth(self, url: str) -> tuple[int, ...]:
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "Delayed", "NotVisible")]
        found = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return tuple(int(found[name]) for name in names)

    def with_dead_letters(self, receives: int) -> tuple[str, str]:
        """Makes a queue and its dead-letter queue."""
        dead = self.queue()
        redrive = {"deadLetterTargetArn": self.arn(dead), "maxReceiveCount": receives}
        return self.queue(RedrivePolicy=redrive, VisibilityTimeout="10"), dead

    def move_s(self, seconds: float) -> None:
        self.clock.advance_ms(round(seconds * 1000))


def in_memory() -> SqsUnderTest:
    clock = ManualClock(START_MS)
    return SqsUnderTest(client=MemorySqsClient(MemorySqs(clock)), clock=clock)


@pytest.fixture(scope="module", params=["memory", "emulated", "moto"])
def kind(request: pytest.FixtureRequest) -> str:
    """Puts the tests in this order, since neither the emulator nor `mock_aws` starts beside the other."""
    return str(request.param)


@pytest.fixture
def sqs_under_test(kind: str, request: pytest.FixtureRequest) -> Iterator[SqsUnderTest]:
    if kind == "memory":
        yield in_memory()
        return
    if kind == "emulated":
        clock = ManualClock(START_MS)
        emulator = Emulator(clock, virtual=True)
        emulator.open()
        try:
            yield SqsUnderTest(client=emulator.wire.session().client("sqs"), clock=clock)
        finally:
            emulator.close()
        return
    client, clock = request.getfixturevalue("sqs"), ManualClock(START_MS)
    time = MotoTime(clock)
    time.install()
    try:
        yield SqsUnderTest(client=client, clock=clock)
    finally:
        time.remove()


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


# ---- queues


def test_a_queue_has_a_url_an_arn_and_the_attributes_that_it_was_made_with(sqs_under_test: SqsUnderTest) -> None:
    client = sqs_under_test.client
    url = sqs_under_test.queue(VisibilityTimeout="77")
    name = url.rpartition("/")[2]
    assert url.startswith("https://sqs.")
    assert client.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId="123456789012")["QueueUrl"] == url
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["QueueArn"].split(":")[-1] == name
    assert (found["VisibilityTimeout"], found["DelaySeconds"], found["MessageRetentionPeriod"]) == ("77", "0", "345600")
    assert float(found["CreatedTimestamp"]) == START_MS / 1000
    client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
    one = client.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert one == {"VisibilityTimeout": "5"}


def test_a_queue_is_made_once_and_not_with_other_attributes(sqs_under_test: SqsUnderTest) -> None:
    client = sqs_under_test.client
    request = {"QueueName": f"q-{next(_numbers)}", "Attributes": {"VisibilityTimeout": "77"}}
    assert client.create_queue(**request)["QueueUrl"] == client.create_queue(**request)["QueueUrl"]
    with pytest.raises(client.exceptions.QueueNameExists) as error:
        client.create_queue(**{**request, "Attributes": {"VisibilityTimeout": "78"}})
    assert code_of(error) == "QueueAlreadyExists"


def test_queues_are_listed_by_prefix_until_they_are_deleted(sqs_under_test: SqsUnderTest) -> None:
    client, prefix = sqs_under_test.client, f"listed-{next(_numbers)}"
    urls = [client.create_queue(QueueName=f"{prefix}-{each}")["QueueUrl"] for each in "ab"]
    assert client.list_queues(QueueNamePrefix=prefix)["QueueUrls"] == urls
    client.delete_queue(QueueUrl=urls[0])
    assert client.list_queues(QueueNamePrefix=prefix)["QueueUrls"] == urls[1:]


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("get_queue_url", {"QueueName": "gone"}),
        ("get_queue_attributes", {"QueueUrl": GONE, "AttributeNames": ["QueueArn"]}),
        ("list_queue_tags", {"QueueUrl": GONE}),
        ("delete_queue", {"QueueUrl": GONE}),
        ("purge_queue", {"QueueUrl": GONE}),
        ("send_message", {"QueueUrl": GONE, "MessageBody": "x"}),
        ("send_message_batch", {"QueueUrl": GONE, "Entries": [{"Id": "0", "MessageBody": "x"}]}),
        ("receive_message", {"QueueUrl": GONE}),
        ("delete_message", {"QueueUrl": GONE, "ReceiptHandle": "x"}),
    ],
)
def test_a_queue_that_is_not_there_is_its_own_error(
    sqs_under_test: SqsUnderTest, call: str, request_: dict[str, Any]
) -> None:
    client = sqs_under_test.client
    with pytest.raises(client.exceptions.QueueDoesNotExist) as error:
        getattr(client, call)(**request_)
    assert code_of(error) == "AWS.SimpleQueueService.NonExistentQueue"
    assert isinstance(error.value, ClientError)
    assert error.value.operation_name == call.title().replace("_", "")


# ---- sending and receiving


def test_a_message_comes_as_it_was_sent(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue()
    sent = sqs_under_test.client.send_message(
        QueueUrl=url, MessageBody="grüße", MessageAttributes={"tidewheel": HEADER, "pack": BINARY}
    )
    [message] = sqs_under_test.receive(
        url,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"],
    )
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "grüße")
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"] == "2b1eab646e7d3b6c02fbfda26bec58f6"
    assert message["MessageAttributes"] == {"tidewheel": HEADER, "pack": BINARY}
    assert message["Attributes"] == {
        "SentTimestamp": str(START_MS),
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": str(START_MS),
    }


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        ([], set()),
        (["All"], {"tidewheel", "tide", "color"}),
        (["tide.*"], {"tidewheel", "tide"}),
        (["color"], {"color"}),
    ],
)
def test_only_attributes_that_are_asked_for_come(
    sqs_under_test: SqsUnderTest, names: list[str], seen: set[str]
) -> None:
    url = sqs_under_test.queue()
    sqs_under_test.send(url, "x", MessageAttributes=dict.fromkeys(("tidewheel", "tide", "color"), HEADER))
    [message] = sqs_under_test.receive(url, MessageAttributeNames=names)
    assert set(message.get("MessageAttributes", {})) == seen
    assert "Attributes" not in message


def test_a_delayed_message_is_counted_as_such_and_comes_after_its_delay(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue()
    sqs_under_test.send(url, "later", DelaySeconds=900)
    sqs_under_test.send(url, "now")
    assert sqs_under_test.depth(url) == (1, 1, 0)
    assert sqs_under_test.bodies(url, VisibilityTimeout=43_200) == ["now"]
    sqs_under_test.move_s(899)
    assert sqs_under_test.bodies(url) == []
    sqs_under_test.move_s(1.001)
    assert sqs_under_test.bodies(url) == ["later"]


def test_a_queue_may_delay_what_names_no_delay(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue(DelaySeconds="60")
    sqs_under_test.send(url, "by the queue")
    sqs_under_test.send(url, "by itself", DelaySeconds=0)
    assert sqs_under_test.bodies(url) == ["by itself"]


def test_a_batch_tells_which_entries_were_taken_and_which_not(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue()
    entries = [{"Id": str(n), "MessageBody": str(n), "DelaySeconds": delay} for n, delay in enumerate((0, 901, 5))]
    answer = sqs_under_test.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["0", "2"]
    [failed] = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"], failed["Code"]) == ("1", True, "InvalidParameterValue")
    assert sqs_under_test.depth(url) == (1, 1, 0)


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([{"Id": str(n), "MessageBody": "x"} for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([{"Id": "0", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct"),
        ([{"Id": "no id", "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)], "BatchRequestTooLong"),
    ],
)
def test_a_batch_that_is_none_is_refused_whole(
    sqs_under_test: SqsUnderTest, entries: list[dict[str, str]], code: str
) -> None:
    url = sqs_under_test.queue()
    with pytest.raises(ClientError) as error:
        sqs_under_test.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert code_of(error).rpartition(".")[2] == code
    assert sqs_under_test.depth(url) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "name", "kind", "value", "code"),
    [
        ("\x01", "a", "String", "x", "InvalidMessageContents"),
        ("\ufffe", "a", "String", "x", "InvalidMessageContents"),
        ("x", "a", "String", "\x01", "InvalidMessageContents"),
        ("x", "a", "String", "", "InvalidParameterValue"),
        ("x", "a", "Binary", b"", "InvalidParameterValue"),
        ("x", "a", "Number", "x", "InvalidParameterValue"),
        ("x", "a", "Number.int", "", "InvalidParameterValue"),
        ("x", "a", "Text", "x", "InvalidParameterValue"),
        ("x", "AWS.a", "String", "x", "InvalidParameterValue"),
        ("x", "a..b", "String", "x", "InvalidParameterValue"),
        ("x\t\U0001f600", "a.b", "String.json", "x", None),
        ("x", "a", "Number.float", "-1.5e3", None),
    ],
)
def test_a_message_that_sqs_does_not_take_is_refused(
    body: str, name: str, kind: str, value: str | bytes, code: str | None
) -> None:
    queues = in_memory()
    attributes = {name: {"DataType": kind, "BinaryValue" if kind == "Binary" else "StringValue": value}}
    answer = queues.client.send_message_batch(
        QueueUrl=queues.queue(), Entries=[{"Id": "1", "MessageBody": body, "MessageAttributes": attributes}]
    )
    assert [each["Code"] for each in answer.get("Failed", [])] == ([] if code is None else [code])


# ---- visibility


def test_what_is_received_and_not_deleted_comes_again(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue(VisibilityTimeout="30")
    sqs_under_test.send(url, "x")
    [first] = sqs_under_test.receive(url)
    assert sqs_under_test.depth(url) == (0, 0, 1)
    sqs_under_test.move_s(29)
    assert sqs_under_test.receive(url) == []
    sqs_under_test.move_s(1.001)
    [second] = sqs_under_test.receive(url, MessageSystemAttributeNames=["All"])
    assert second["MessageId"] == first["MessageId"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    assert second["Attributes"]["ApproximateFirstReceiveTimestamp"] == str(START_MS)


def test_what_is_deleted_does_not_come_again(sqs_under_test: SqsUnderTest) -> None:
    client, url = sqs_under_test.client, sqs_under_test.queue(VisibilityTimeout="30")
    sqs_under_test.send(url, "a", "b", "c")
    received = sqs_under_test.receive(url)
    client.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])
    entries = [{"Id": str(n), "ReceiptHandle": received[n]["ReceiptHandle"]} for n in (1, 2)]
    answer = client.delete_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in answer["Successful"]] == ["1", "2"]
    sqs_under_test.move_s(31)
    assert sqs_under_test.depth(url) == (0, 0, 0)


def test_a_message_in_flight_can_be_held_longer_or_given_back(sqs_under_test: SqsUnderTest) -> None:
    client, url = sqs_under_test.client, sqs_under_test.queue(VisibilityTimeout="30")
    sqs_under_test.send(url, "held", "back")
    handles = {each["Body"]: each["ReceiptHandle"] for each in sqs_under_test.receive(url)}
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=handles["held"], VisibilityTimeout=100)
    entry = {"Id": "0", "ReceiptHandle": handles["back"], "VisibilityTimeout": 0}
    assert client.change_message_visibility_batch(QueueUrl=url, Entries=[entry])["Successful"] == [{"Id": "0"}]
    sqs_under_test.move_s(0.001)
    assert sqs_under_test.bodies(url, VisibilityTimeout=1000) == ["back"]
    sqs_under_test.move_s(99)
    assert sqs_under_test.bodies(url) == []
    sqs_under_test.move_s(2)
    assert sqs_under_test.bodies(url) == ["held"]


def test_a_handle_that_is_none_is_refused(sqs_under_test: SqsUnderTest) -> None:
    url = sqs_under_test.queue()
    with pytest.raises(ClientError) as error:
        sqs_under_test.client.delete_message(QueueUrl=url, ReceiptHandle="none")
    assert code_of(error) == "ReceiptHandleIsInvalid"


# ---- dead letters


def test_what_was_received_too_often_goes_to_the_dead_letter_queue(sqs_under_test: SqsUnderTest) -> None:
    url, dead = sqs_under_test.with_dead_letters(receives=2)
    sqs_under_test.send(url, "poison")
    for _ in range(2):
        assert sqs_under_test.bodies(url) == ["poison"]
        assert sqs_under_test.depth(dead) == (0, 0, 0)
        sqs_under_test.move_s(11)
    assert sqs_under_test.bodies(url) == []
    assert sqs_under_test.bodies(dead) == ["poison"]
    assert sqs_under_test.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]


def bury(queues: SqsUnderTest, *bodies: str) -> tuple[str, str]:
    """Makes a queue whose dead-letter queue has got these messages."""
    url, dead = queues.with_dead_letters(receives=1)
    queues.send(url, *bodies, MessageAttributes={"tidewheel": HEADER})
    assert queues.bodies(url) == list(bodies)
    queues.move_s(11)
    assert queues.bodies(url) == []
    return url, dead


def test_dead_letters_move_back_to_where_they_came_from_as_new_messages() -> None:
    queues = in_memory()
    url, dead = bury(queues, "a", "b")
    queues.send(dead, "put here by hand")
    queues.client.start_message_move_task(SourceArn=queues.arn(dead))
    messages = queues.receive(url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])
    assert [each["Body"] for each in messages] == ["a", "b"]
    assert messages[0]["MessageAttributes"] == {"tidewheel": HEADER}
    assert messages[0]["Attributes"]["ApproximateReceiveCount"] == "1"
    assert messages[0]["Attributes"]["SentTimestamp"] == str(queues.clock.now_ms())
    assert queues.bodies(dead) == ["put here by hand"]
    [task] = queues.client.list_message_move_tasks(SourceArn=queues.arn(dead))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 2)


def test_dead_letters_move_elsewhere_if_told_so() -> None:
    queues = in_memory()
    url, dead = bury(queues, "a")
    other = queues.queue()
    queues.client.start_message_move_task(SourceArn=queues.arn(dead), DestinationArn=queues.arn(other))
    assert (queues.bodies(url), queues.bodies(dead), queues.bodies(other)) == ([], [], ["a"])


def test_only_dead_letters_can_be_moved() -> None:
    queues = in_memory()
    with pytest.raises(ClientError, match="Dead Letter Queue"):
        queues.client.start_message_move_task(SourceArn=queues.arn(queues.queue()))


# ---- where moto is not SQS


def test_a_stale_handle_deletes_nothing_and_changes_nothing() -> None:
    queues = in_memory()
    url = queues.queue(VisibilityTimeout="10")
    queues.send(url, "x")
    [first] = queues.receive(url)
    queues.move_s(10)
    [second] = queues.receive(url)
    queues.client.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    stale = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 0}
    with pytest.raises(ClientError, match="not available for visibility timeout change"):
        queues.client.change_message_visibility(**stale)
    assert queues.depth(url) == (0, 0, 1)
    queues.client.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    assert queues.depth(url) == (0, 0, 0)


def test_messages_older_than_the_retention_period_are_gone() -> None:
    queues = in_memory()
    url = queues.queue(MessageRetentionPeriod="60")
    queues.send(url, "old")
    queues.move_s(30)
    queues.send(url, "young")
    queues.move_s(30)
    assert queues.depth(url) == (1, 0, 0)
    assert queues.bodies(url) == ["young"]


def test_messages_come_by_the_time_at_which_they_become_receivable_then_by_arrival() -> None:
    queues = in_memory()
    url = queues.queue()
    for body, delay in (("c", 3), ("a", 1), ("d", 3), ("b", 2)):
        queues.send(url, body, DelaySeconds=delay)
    queues.move_s(3)
    assert queues.bodies(url) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"DelaySeconds": "soon"}, "InvalidAttributeValue"),
        ({"Colour": "red"}, "InvalidAttributeName"),
        ({"RedrivePolicy": "{}"}, "InvalidParameterValue"),
    ],
)
def test_attributes_that_sqs_does_not_take_make_no_queue(attributes: dict[str, str], code: str) -> None:
    queues = in_memory()
    with pytest.raises(ClientError) as error:
        queues.client.create_queue(QueueName="q", Attributes=attributes)
    assert code_of(error) == code
    with pytest.raises(queues.client.exceptions.QueueDoesNotExist):
        queues.client.get_queue_url(QueueName="q")


@pytest.mark.parametrize("name", ["", "a b", "x" * 81, "orders.fifo"])
def test_a_name_that_no_standard_queue_has_is_refused(name: str) -> None:
    with pytest.raises(SqsError, match="InvalidParameterValue"):
        MemorySqs(ManualClock()).create_queue(name)


# ---- what the flows send is what a client receives


def a_release(text: str, **attributes: str) -> QueueMessage:
    return QueueMessage(START_MS, text, attributes or None, header_text(a_message_id(), 1, START_MS), len(text))


def test_what_the_port_sends_a_client_receives_when_its_delay_ends() -> None:
    clock = ManualClock(START_MS)
    sqs = MemorySqs(clock)
    queues, under_test = memory_queues(sqs), SqsUnderTest(client=MemorySqsClient(sqs), clock=clock)
    url = under_test.queue()
    release = a_release("later", color="red")
    assert queues.send(url, [(release, 7), (a_release("now"), 0)]) == []
    assert under_test.bodies(url) == ["now"]
    clock.advance_ms(7000)
    [message] = under_test.receive(url, MessageAttributeNames=["All"])
    values = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert (message["Body"], values) == ("later", {"color": "red", "tidewheel": release.header})
    assert sqs.queue(url).visible_at_ms(message["MessageId"]) == clock.now_ms()


def test_the_port_refuses_what_sqs_would_and_takes_the_rest() -> None:
    sqs = MemorySqs(ManualClock(START_MS))
    queues, url = memory_queues(sqs), sqs.create_queue("q").url
    many = a_release("many attributes", **{f"a{n}": "x" for n in range(10)})
    refusals = queues.send(url, [(many, 0), (a_release("good"), 0), (a_release("x" * SQS_MAX_BYTES), 0)])
    assert [(each.index, each.permanent, each.code) for each in refusals] == [
        (0, True, "InvalidParameterValue"),
        (2, True, "AWS.SimpleQueueService.BatchRequestTooLong"),
    ]
    assert [message.body for message in sqs.queue(url).messages] == ["good"]


def test_the_port_deletes_messages_of_an_ingest_queue_ten_a_request() -> None:
    sqs = MemorySqs(ManualClock(START_MS), on_demand=True)
    queues, client = memory_queues(sqs), MemorySqsClient(sqs)
    for _ in range(12):
        queues.forward("orders", 1, b"pack", urgent=True)
    url, handles = queues.ingest_queues("orders")[0], list[str]()
    while found := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        handles += [each["ReceiptHandle"] for each in found]
    queues.delete("orders", handles[1:], urgent=True)
    assert [each.receipt_handle for each in sqs.queue(url).everything] == handles[:1]


def test_a_queue_is_made_on_demand_where_that_was_asked_for() -> None:
    clock = ManualClock(START_MS)
    sqs = MemorySqs(clock, on_demand=True)
    assert MemoryService.at(clock, sqs).queues.send(GONE, [(a_release("x"), 0)]) == []
    assert MemoryService.at(clock).queues.send(GONE, [(a_release("x"), 0)]) == []
    assert [message.body for message in sqs.queue("gone").messages] == ["x"]
    with pytest.raises(QueueUnavailable, match="NonExistentQueue"):
        MemoryService.at(clock, MemorySqs(clock)).queues.send(GONE, [(a_release("x"), 0)])
