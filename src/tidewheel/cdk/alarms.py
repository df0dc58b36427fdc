"""Alarms: one for each thing that runs unseen, and the topic that tells about them."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs import Construct

PERIOD = Duration.minutes(5)
BROKEN = ("FAILED", "TIMEOUT", "ERROR")
"""The states in which a job run ends badly and by itself."""


class Alarms(Construct):
    """CloudWatch alarms of the service.

    Attributes:
        topic: The SNS topic to subscribe to. It says what broke.
    """

    def __init__(self, scope: Construct, id_: str) -> None:
        """Make the topic; CloudWatch and EventBridge, in this account, may publish."""
        super().__init__(scope, id_)
        self.topic = sns.Topic(self, "Topic", display_name="Tidewheel")
        # The rules' targets give the topic a policy, which replaces the default one that lets alarms publish.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )

    def function_errors(self, function: lambda_.Function) -> cloudwatch.Alarm:
        """Make the alarm on calls of a function that failed."""
        alarm = self._alarm(f"{function.node.id}Errors", function.metric_errors(period=PERIOD, statistic="Sum"))
        alarm.add_alarm_action(SnsAction(self.topic))
        return alarm

    def job_failures(self, job: glue.PySparkEtlJob) -> cloudwatch.Alarm:
        """Make the alarm on runs of a Glue job that failed.

        Glue has no metric that counts failed runs, only events. So a rule picks them and brings each, with its
        error, to the topic; the alarm counts how often the rule was triggered. It has no action of its own, or
        each failure would be told twice. A run that is tried again counts as well.
        """
        rule = job.on_event(
            "Broken",
            description="Runs of a Glue job of Tidewheel that failed",
            target=targets.SnsTopic(self.topic),
            event_pattern=events.EventPattern(detail={"state": list(BROKEN)}),
        )
        metric = cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="TriggeredRules",
            dimensions_map={"RuleName": rule.rule_name},
            period=PERIOD,
            statistic="Sum",
        )
        return self._alarm(f"{job.node.id}Failures", metric)

    def _alarm(self, id_: str, metric: cloudwatch.IMetric) -> cloudwatch.Alarm:
        """Make an alarm on anything above none; no data is none."""
        return cloudwatch.Alarm(
            self,
            id_,
            metric=metric,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
