"""What requests did is there after a kill, all of it and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.state.emulated import Emulated, differences, everything
from tests.local.state.requests import Requests
from tidewheel.errors import StateUnusable
from tidewheel.local import deployment


@pytest.fixture(autouse=True)
def closed(tmp_path: Path) -> Iterator[None]:
    yield
    if Emulated.latest is not None:
        Emulated.latest.close()


def test_everything_that_random_requests_left_is_there_after_a_kill(tmp_path: Path) -> None:
    requests = Requests(0)
    emulated = Emulated(tmp_path / "first")
    for round_ in range(3):
        requests.connect(emulated)
        requests.send(150)
        left = everything(emulated.emulator)
        emulated = emulated.killed(tmp_path / f"{round_}")
        assert differences(left, everything(emulated.emulator)) == []
    assert {name for name in dir(requests) if name.startswith("do_")} == requests.sent.keys()


def test_a_dead_letter_queue_is_found_again(tmp_path: Path) -> None:
    emulated = Emulated(tmp_path / "first")
    sqs = emulated.emulator.wire.session().client("sqs")
    dead = sqs.create_queue(QueueName="z-dead")["QueueUrl"]  # restored after the queue that needs it
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName="a", Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    sqs.send_message(QueueUrl=source, MessageBody="hello")

    emulated = emulated.killed(tmp_path / "second")
    sqs = emulated.emulator.wire.session().client("sqs")
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
    sqs.receive_message(QueueUrl=source)
    sqs.receive_message(QueueUrl=source)
    assert [each["Body"] for each in sqs.receive_message(QueueUrl=dead)["Messages"]] == ["hello"]


def test_ids_and_receipt_handles_of_an_earlier_process_never_come_again(tmp_path: Path) -> None:
    emulated = Emulated(tmp_path / "first")
    sqs = emulated.emulator.wire.session().client("sqs")
    queue = sqs.create_queue(QueueName="a")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="first")
    [first] = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])

    emulated = emulated.killed(tmp_path / "second")
    sqs = emulated.emulator.wire.session().client("sqs")
    sqs.send_message(QueueUrl=queue, MessageBody="second")
    [second] = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])

    assert second["MessageId"] != first["MessageId"]
    assert [each["Body"] for each in sqs.receive_message(QueueUrl=queue)["Messages"]] == ["second"]


def test_a_state_for_which_the_stack_has_no_place_is_refused(tmp_path: Path) -> None:
    emulated = Emulated(tmp_path)
    sqs = emulated.emulator.wire.session().client("sqs")
    [work] = [each for each in sqs.list_queues()["QueueUrls"] if "DeliveryWorkQueue70" in each]
    sqs.send_message(QueueUrl=work, MessageBody="m")
    emulated.close()
    template = deployment.template_of(None)
    renamed = json.loads(json.dumps(template).replace("DeliveryWorkQueue70B789A2", "RenamedQueue"))
    with pytest.raises(StateUnusable, match=r"needs the queue tidewheel-DeliveryWorkQueue.*Give the template"):
        Emulated(tmp_path, template=renamed)
    Emulated(tmp_path).close()


def test_a_skip_is_kept_before_it_is_answered(tmp_path: Path) -> None:
    emulated = Emulated(tmp_path / "first")
    emulated.moved.set_ms(emulated.moved.now_ms() + 86_400_000)
    emulated.emulator.commit()
    assert emulated.killed(tmp_path / "second").moved.offset_ms >= 86_399_000
