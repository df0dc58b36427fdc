"""Failed work is retried in time, never runs twice at once, and is never lost.

Time-outs, leases, visibility time-outs, receives and retention are set in many places; here they meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.infra.variants import VARIANTS, template_of
from tidewheel.aws.scheduler_wheel import MAX_EVENT_AGE_S, MAX_RETRIES
from tidewheel.cdk.environment import Environment
from tidewheel.errors import InvalidValue
from tidewheel.flows.maintenance.daily import PORTION_MS
from tidewheel.flows.maintenance.sweep import SWEEP_MS
from tidewheel.model.settings import LEASE_MS, MAX_DELIVERY_S, MAX_FUNCTION_S, SCHEDULER_LATENESS_S, TopicSettings

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

LEASE_S = LEASE_MS // 1000
OUTAGE_S = 33 * 3600
DAYS_14 = 14 * 24 * 3600
BETWEEN_RETRIES_S = 60 + 120
"""Lambda waits a minute before it repeats an asynchronous call that failed, and two before the second time."""

ACCOUNT_CONCURRENCY = 1000
"""Lambda's default quota of calls at one time."""

DELIVERING = ("ingest", "dispatch", "deliver")
CALLED = ("dispatch", "sweep", "compact")
"""The functions that are called asynchronously."""

WORK_QUEUE = "DeliveryWorkQueue"


@pytest.fixture(scope="module", params=VARIANTS)
def any_stack(request: pytest.FixtureRequest) -> StackTemplate:
    """Each stack variant."""
    from tests.infra.conftest import StackTemplate

    return StackTemplate(template_of(request.param))


# ---- queues and the functions that read them


def test_a_message_comes_again_only_when_the_call_that_has_it_must_be_over(any_stack: StackTemplate) -> None:
    for source in sources(any_stack):
        window_s = source["mapping"].get("MaximumBatchingWindowInSeconds", 0)
        assert source["queue"]["VisibilityTimeout"] >= 2 * source["function"]["Timeout"] + window_s


def test_whoever_reads_a_queue_reports_what_failed_and_leaves_the_rest_done(any_stack: StackTemplate) -> None:
    for source in sources(any_stack):
        assert source["mapping"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_each_queue_that_a_function_reads_has_a_dead_letter_queue_of_its_own_that_nothing_reads(
    any_stack: StackTemplate,
) -> None:
    read = {source["id"] for source in sources(any_stack)}
    targets = [dead_letter_id(source["queue"]) for source in sources(any_stack)]
    assert len(targets) == len(set(targets)) == len(read)
    assert not read & set(targets)
    assert set(targets) <= set(any_stack.of_type("AWS::SQS::Queue"))


def test_what_people_must_look_at_stays_for_two_weeks_less_the_time_it_was_tried(any_stack: StackTemplate) -> None:
    queues = any_stack.of_type("AWS::SQS::Queue")
    # A message keeps its age when SQS moves it to a dead-letter queue, so none may keep messages for less.
    assert {queue["MessageRetentionPeriod"] for queue in queues.values()} == {DAYS_14}
    for source in sources(any_stack):
        assert DAYS_14 - tried_s(source["queue"]) > 6 * 24 * 3600


def test_an_outage_of_33_hours_heals_by_itself(any_stack: StackTemplate) -> None:
    tried = [tried_s(each["queue"]) for each in sources(any_stack) if not each["id"].startswith(WORK_QUEUE)]
    assert len(tried) >= 2
    assert all(each >= OUTAGE_S for each in tried)


def test_the_sweep_enqueues_a_part_again_only_when_its_job_is_over(stack: StackTemplate) -> None:
    redrive_s = TopicSettings().redrive_s
    assert redrive_s / 2 < tried_s(stack.one("AWS::SQS::Queue", WORK_QUEUE)) <= redrive_s


def test_a_part_that_failed_is_tried_twice_more_before_its_first_message_is_due(stack: StackTemplate) -> None:
    again_s = stack.one("AWS::SQS::Queue", WORK_QUEUE)["VisibilityTimeout"]
    last_s = stack.functions()["deliver"]["Timeout"]
    assert SCHEDULER_LATENESS_S + 2 * again_s + last_s <= TopicSettings().lookahead_s


# ---- leases


def test_a_lease_outlives_every_function_that_delivers(any_stack: StackTemplate) -> None:
    functions = any_stack.functions()
    assert max(functions[name]["Timeout"] for name in DELIVERING) == MAX_DELIVERY_S < LEASE_S


def test_a_part_whose_worker_died_is_free_when_it_comes_again(stack: StackTemplate) -> None:
    assert stack.one("AWS::SQS::Queue", WORK_QUEUE)["VisibilityTimeout"] > LEASE_S


def test_no_function_outlives_what_deletions_and_rebuilds_wait_for(any_stack: StackTemplate) -> None:
    assert max(function["Timeout"] for function in any_stack.functions().values()) <= MAX_FUNCTION_S
    assert TopicSettings().redrive_s >= MAX_FUNCTION_S * 2


def test_a_sweep_is_over_when_the_next_one_begins(stack: StackTemplate) -> None:
    assert stack.functions()["sweep"]["Timeout"] < Environment.development().sweep_interval_s


def test_a_sweep_begins_nothing_in_the_last_minute_of_its_functions_time(any_stack: StackTemplate) -> None:
    assert any_stack.functions()["sweep"]["Timeout"] * 1000 == SWEEP_MS + 60_000
    assert 3 * PORTION_MS <= SWEEP_MS


def test_in_production_ingest_and_deliver_leave_dispatches_most_of_an_accounts_calls() -> None:
    others = sum(each["mapping"]["ScalingConfig"]["MaximumConcurrency"] for each in sources(stack_of("production")))
    assert others <= 0.3 * ACCOUNT_CONCURRENCY


# ---- asynchronous calls


@pytest.mark.parametrize(("function", "retries"), [("dispatch", 2), ("sweep", 0), ("compact", 0)])
def test_a_call_that_fails_is_tried_again_where_that_helps(stack: StackTemplate, function: str, retries: int) -> None:
    assert asynchronous(stack)[function]["MaximumRetryAttempts"] == retries


def test_every_function_that_reads_no_queue_records_the_calls_that_were_given_up(any_stack: StackTemplate) -> None:
    readers = {source["name"] for source in sources(any_stack)}
    configs = asynchronous(any_stack)
    assert set(configs) == set(any_stack.functions()) - readers == set(CALLED)
    for config in configs.values():
        assert config["Qualifier"] == "$LATEST"
        target = config["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0]
        assert target.startswith("TimingWheelScheduleDeadLetters")


def test_a_dispatch_is_given_up_when_both_repeats_had_their_time_and_sweeps_have_seen_the_topic(
    stack: StackTemplate,
) -> None:
    age_s = asynchronous(stack)["dispatch"]["MaximumEventAgeInSeconds"]
    # The age counts until a try starts, so the last one is not in it.
    assert 2 * stack.functions()["dispatch"]["Timeout"] + BETWEEN_RETRIES_S <= age_s
    assert 2 * Environment.development().sweep_interval_s <= age_s <= TopicSettings().redrive_s


def test_a_late_sweep_is_dropped_when_the_next_one_is_due(stack: StackTemplate) -> None:
    interval_s = Environment.development().sweep_interval_s
    assert asynchronous(stack)["sweep"]["MaximumEventAgeInSeconds"] == interval_s
    [target] = stack.one("AWS::Events::Rule", "TimingWheelSweepRule")["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": interval_s, "MaximumRetryAttempts": MAX_RETRIES}


def test_the_scheduler_gives_up_a_topic_when_a_sweep_has_seen_it() -> None:
    sweep_s = Environment.development().sweep_interval_s
    assert sweep_s <= MAX_EVENT_AGE_S <= TopicSettings().lookahead_s
    assert MAX_RETRIES >= 1


def test_what_the_scheduler_gives_up_is_kept(stack: StackTemplate) -> None:
    variable = stack.functions()["ingest"]["Environment"]["Variables"]["TIDEWHEEL_SCHEDULE_DEAD_LETTER_ARN"]
    assert variable["Fn::GetAtt"][0].startswith("TimingWheelScheduleDeadLetters")
    assert "TimingWheelScheduleDeadLetters" in str(stack.resources("TimingWheelScheduleRole", "sqs:SendMessage"))


# ---- concurrency


def test_no_queue_can_take_all_of_productions_concurrency_and_an_idle_development_stack_is_polled_less() -> None:
    production, development = (sources(stack_of(name)) for name in ("production", "development"))
    assert max(each["mapping"]["ScalingConfig"]["MaximumConcurrency"] for each in production) <= 100
    assert not any("ScalingConfig" in each["mapping"] for each in development)


def test_functions_that_come_again_in_one_chain_of_messages_are_not_taken_for_a_loop(any_stack: StackTemplate) -> None:
    loops = {name: each.get("RecursiveLoop") for name, each in any_stack.functions().items()}
    assert {name for name, setting in loops.items() if setting == "Allow"} == {"ingest", "deliver"}


def test_reserved_concurrency_is_the_environments() -> None:
    reserved = stack_of("topics with queues of their own").functions()
    found = {name: each.get("ReservedConcurrentExecutions") for name, each in reserved.items()}
    assert found == {"ingest": 360, "dispatch": 50, "deliver": None, "sweep": None, "compact": None}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sweep_interval_s": 90}, "sweep_interval_s=90: give whole minutes"),
        ({"reserved_concurrency": {"ingest": 2499}}, "reserved_concurrency=2499: ingest needs at least 2500"),
        (
            {"reserved_concurrency": {"deliver": 99}, "work_concurrency": 100},
            "reserved_concurrency=99: deliver needs at least 100",
        ),
        ({"own_key": True, "encryption_key_arn": "arn"}, "encryption_key_arn='arn': own_key makes a key"),
    ],
)
def test_an_environment_that_cannot_work_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Environment.development(**changes)
    assert told in str(refused.value)


def stack_of(variant: str) -> StackTemplate:
    """Returns a variant's template with queries for tests."""
    from tests.infra.conftest import StackTemplate

    return StackTemplate(template_of(variant))


def sources(stack: StackTemplate) -> list[dict[str, Any]]:
    """Returns each queue read by a function, with the queue's id, the mapping, and the function with its name."""
    queues = stack.of_type("AWS::SQS::Queue")
    by_id = stack.of_type("AWS::Lambda::Function")
    names = {id(properties): name for name, properties in stack.functions().items()}
    found = []
    for mapping in stack.of_type("AWS::Lambda::EventSourceMapping").values():
        queue_id = mapping["EventSourceArn"]["Fn::GetAtt"][0]
        function = by_id[mapping["FunctionName"]["Ref"]]
        found.append(
            {
                "id": queue_id,
                "queue": queues[queue_id],
                "mapping": mapping,
                "function": function,
                "name": names[id(function)],
            }
        )
    return found


def asynchronous(stack: StackTemplate) -> dict[str, dict[str, Any]]:
    """How each function's asynchronous calls are tried, by the function's name."""
    by_id = stack.of_type("AWS::Lambda::Function")
    names = {id(properties): name for name, properties in stack.functions().items()}
    return {
        names[id(by_id[config["FunctionName"]["Ref"]])]: config
        for config in stack.of_type("AWS::Lambda::EventInvokeConfig").values()
    }


def dead_letter_id(queue: dict[str, Any]) -> str:
    """The logical id of a queue's dead-letter queue."""
    return str(queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0])


def tried_s(queue: dict[str, Any]) -> int:
    """Returns how long a failing message is retried before becoming a dead letter."""
    return int(queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"])
