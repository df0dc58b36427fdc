"""Creates the service's alarms and their SNS topic.

Each alarm has a page in the runbook, and its description ends with the command that prints the page. CloudWatch bills
each metric that an alarm reads. So alarms read what shows that messages are late or kept back, and not each cause: if
the table or a function is throttled, calls fail, or packs and messages grow old. The alarms on the service's own
metrics are left out if the functions emit none. Each dead-letter queue that is created for a subscription has one more
alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct

from tidewheel.cdk.encryption import allow_alarms, key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.metric_sources import PERIOD, Watched, oldest_age, visible
from tidewheel.telemetry import metrics

BROKEN = ("FAILED", "TIMEOUT", "ERROR")
"""The final states of a failed job run, without runs stopped by people."""
MOST_METRICS = 10
"""The most metrics that an alarm can read."""
THROTTLED = ("ReadThrottleEvents", "WriteThrottleEvents")
"""DynamoDB's metrics of throttled requests, of a table without its indexes or of an index. No data means none.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html"""
DROPPED = "InvocationDroppedCount"
"""EventBridge Scheduler's metric of invocations given up, after errors or throttles."""
UNSCHEDULED = ("TargetErrorCount", "TargetErrorThrottledCount", "InvocationThrottleCount", DROPPED)
"""EventBridge Scheduler's metrics of failed invocations: error or throttle of the function, own throttle, given up.
https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html"""
FAILED_SHARE = 0.05
"""The share of a function's calls that fail, or of all calls that leave failed work, from which somebody is told."""
ALL = "SUM(FILL(METRICS(), 0))"
WORST = "MAX(FILL(METRICS(), 0))"


class Alarms(Construct):
    """The SNS topic for failures, and the service's CloudWatch alarms if the environment has alarms.

    Attributes:
        topic: The SNS topic to subscribe to. Its messages say what failed.
        alarms: All alarms; empty if the environment has no alarms.
    """

    def __init__(self, scope: Construct, id_: str, *, topic: sns.ITopic | None = None) -> None:
        """Creates the SNS topic, or uses the given topic.

        CloudWatch, for this account, and EventBridge may publish to the topic. EventBridge names neither account nor
        rule when it publishes to SNS, so no condition can check them.
        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions
        The policies of an imported topic or key do not change.
        """
        super().__init__(scope, id_)
        self.alarms: list[cloudwatch.Alarm] = []
        key = key_of(self)
        self.topic = topic or sns.Topic(self, "Topic", display_name="Tidewheel", enforce_ssl=True, master_key=key)
        if topic is not None and topic.master_key is not None and topic.master_key is not key:
            allow_alarms(topic.master_key)
        # The rules' targets give the topic a policy, which replaces the default one that lets alarms publish.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )

    def watch(self, watched: Watched, environment: Environment) -> None:
        """Reports failed job runs to the topic, and creates the alarms if the environment has alarms."""
        if watched.jobs:
            self._tell_broken_jobs(watched)
        if not environment.alarms:
            return
        self._name = watched.service_name
        if environment.metrics:
            self._watch_own(watched, environment)
        self._watch_queues(watched, environment)
        self._watch_functions(watched, environment)
        self._watch_scheduler(watched, environment)

    def _watch_own(self, watched: Watched, environment: Environment) -> None:
        """Creates the alarms that read only the service's own metrics."""
        self._alarm(
            "OldestDue",
            "Oldest due message",
            "A message has been due for longer than it should be, and is not delivered.",
            watched.own(metrics.OLDEST_DUE_AGE),
            threshold=environment.oldest_due_alarm_s,
            # Of an open delivery that deliver is to send, the age is measured only each half an hour (`redrive_s`).
            periods=7,
        )
        self._alarm(
            "BrokenSubscriptions",
            "Broken subscriptions",
            "A subscription's queue is gone or refuses messages; they are parked.",
            watched.own(metrics.BROKEN_SUBSCRIPTIONS),
            periods=3,
        )
        self._alarm(
            "Damaged",
            "Damaged data",
            "Stored data cannot be read; its own messages do not come, all others do.",
            watched.own(metrics.DAMAGED),
            periods=12,
        )

    def _watch_queues(self, watched: Watched, environment: Environment) -> None:
        """Creates the alarms on the service's own queues."""
        for first in range(0, len(watched.dead_letters), MOST_METRICS):
            queues = watched.dead_letters[first : first + MOST_METRICS]
            self._alarm(
                f"DeadLetters{first or ''}",
                "Dead letters",
                "Packs, tasks or invocations were given up and wait in a dead-letter queue.",
                _together(ALL, map(visible, queues)),
            )
        self._alarm(
            "Refused",
            "Refused messages",
            "SQS refused messages for good; they wait in the refused queue.",
            visible(watched.refused),
        )
        # The same function reads a topic's own bulk queue and its urgent queue.
        read = [queue for name, queue in watched.sources.items() if "." not in name or name.endswith(".urgent")]
        self._alarm(
            "QueueAge",
            "Queue age",
            "Messages wait too long in a queue that a function should read.",
            _together(WORST, map(oldest_age, read)),
            threshold=environment.queue_age_alarm_s,
        )

    def _watch_functions(self, watched: Watched, environment: Environment) -> None:
        """Creates the alarms on functions that fail or do not run.

        A failed merge is not retried by Lambda: its record is a dead letter.
        """
        names = [name for name in watched.functions if name != "compact"]
        read = {f"e{number}": watched.of_function(name, "Errors") for number, name in enumerate(names)}
        calls = {f"c{number}": watched.of_function(name, "Invocations") for number, name in enumerate(names)}
        shares = [f"FILL({failed} / {called}, 0)" for failed, called in zip(read, calls, strict=True)]
        if environment.metrics:
            read["f"] = watched.own(metrics.FAILURES)
            shares.append(f"FILL(f / SUM(FILL([{', '.join(calls)}], 0)), 0)")
        self._alarm(
            "Failures",
            "Failures",
            f"{FAILED_SHARE:.0%} of a function's calls fail, or calls leave as much work to another try.",
            _combined(f"MAX([{', '.join(shares)}])", {**read, **calls}),
            threshold=FAILED_SHARE,
            seen=2,
            periods=3,
        )
        self._alarm(
            "SweepMissing",
            "Sweep not running",
            "The sweep has not run: nothing heals a lost schedule, and nothing above is measured.",
            # Periods without a call after one with a call are zero. Periods before the first call have no value.
            _together("FILL(m0, 0) * FILL(m0, REPEAT)", [watched.of_function("sweep", "Invocations")]),
            below=True,
            # The sweep's interval is at most one period. Calls that come late leave every other period empty, at most.
            seen=4,
            periods=6,
        )

    def _watch_scheduler(self, watched: Watched, environment: Environment) -> None:
        """Creates the alarm on schedules that go on being refused or given up. The sweep does without them."""
        own = [watched.own(metrics.SCHEDULE_REFUSED)] if environment.metrics else []
        self._alarm(
            "Scheduler",
            "Scheduler errors",
            "EventBridge Scheduler goes on refusing schedules, or giving up dispatches; only the sweep starts them.",
            _together(ALL, [watched.of_scheduler(DROPPED), *own]),
            seen=3,
            periods=3,
        )

    def _tell_broken_jobs(self, watched: Watched) -> None:
        """Creates the rule that reports each failed job run, with its error, to the topic.

        Glue has no metric that counts failed runs, only events. A failed run that Glue retries is reported too.
        """
        events.Rule(
            self,
            "BrokenJobs",
            description="Runs of a Glue job of Tidewheel that failed",
            event_pattern=events.EventPattern(
                source=["aws.glue"],
                detail_type=["Glue Job State Change"],
                detail={"jobName": [job.job_name for job in watched.jobs], "state": list(BROKEN)},
            ),
            targets=[targets.SnsTopic(self.topic)],
        )

    def _alarm(
        self, id_: str, title: str, says: str, metric: cloudwatch.IMetric, *, seen: int = 1, **properties: Any
    ) -> None:
        """Creates an alarm on `seen` of `periods` periods, named after the id. See `_made` for the properties."""
        properties |= {"alarm_name": f"{self._name}-{id_}", "datapoints_to_alarm": seen}
        alarm = _made(self, id_, self.topic, title, says, metric, **properties)
        self.alarms.append(alarm)


def watch_dead_letters(
    dead_letters: sqs.Queue, *, topic: sns.ITopic, alarm_name: str | None = None
) -> cloudwatch.Alarm:
    """Creates the alarm on a subscription's dead letters, beside their queue.

    Args:
        dead_letters: The dead-letter queue.
        topic: Gets a message when there are dead letters, and when there are none any more.
        alarm_name: By default CloudFormation names the alarm.
    """
    says = "A subscription has dead letters: its consumer received them too often without deleting them."
    title = "Dead letters of a subscription"
    return _made(dead_letters, "Alarm", topic, title, says, visible(dead_letters), alarm_name=alarm_name)


def _made(
    scope: Construct,
    id_: str,
    topic: sns.ITopic,
    title: str,
    says: str,
    metric: cloudwatch.IMetric,
    *,
    threshold: float = 1,
    periods: int = 1,
    below: bool = False,
    **properties: Any,
) -> cloudwatch.Alarm:
    """Creates an alarm, which tells the topic, at or above a threshold, or below the threshold.

    Without any data, the former is quiet, and the latter stays as it is. The title is that of the runbook's page.
    """
    comparison, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
    alarm = cloudwatch.Alarm(
        scope,
        id_,
        alarm_description=f"{says} What to do: tidewheel docs runbook#{anchor(title)}",
        metric=metric,
        threshold=threshold,
        evaluation_periods=periods,
        comparison_operator=comparison.LESS_THAN_THRESHOLD if below else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treat_missing_data=missing.IGNORE if below else missing.NOT_BREACHING,
        **properties,
    )
    alarm.add_alarm_action(SnsAction(topic))
    alarm.add_ok_action(SnsAction(topic))
    return alarm


def anchor(title: str) -> str:
    """Returns the link anchor of a heading, such as `dead-letters` for "Dead letters"."""
    return title.lower().replace(" ", "-")


def _together(expression: str, parts: Iterable[cloudwatch.Metric]) -> cloudwatch.MathExpression:
    """Returns a metric that combines several metrics."""
    return _combined(expression, {f"m{number}": part for number, part in enumerate(parts)})


def _combined(expression: str, using: Mapping[str, cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(expression=expression, using_metrics=dict(using), period=PERIOD)
