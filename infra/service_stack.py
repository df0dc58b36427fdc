"""Defines the stack of this app, which is a service with outputs for operators."""

from __future__ import annotations

from aws_cdk import CfnOutput, IStackSynthesizer, Stack
from constructs import Construct

from tidewheel.cdk.environment import Environment
from tidewheel.cdk.service import TidewheelService

ENVIRONMENT_OUTPUT = "Environment"
"""The output that tells a later deployment which environment it would change."""


class ServiceStack(Stack):
    """A stack with a service."""

    def __init__(
        self,
        scope: Construct,
        stack_name: str,
        *,
        environment: Environment,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        """Creates the service. A construct named "Default" adds nothing to the logical ids."""
        description = "Tidewheel: delayed messages for Amazon SQS"
        super().__init__(scope, stack_name, description=description, synthesizer=synthesizer)
        self.service = service = TidewheelService(self, "Default", environment=environment)
        outputs = {
            ENVIRONMENT_OUTPUT: environment.name,
            "SettingsParameter": service.parameter.parameter_name,
            "TableName": service.storage.table.table_name,
            "S3BucketName": service.storage.s3_bucket.bucket_name,
            "AddressUrl": service.address().queue_url,
            "AddressArn": service.address().queue_arn,
            "UrgentQueueUrl": service.ingestion.urgent_queue.queue_url,
            "BulkQueueUrl": service.ingestion.bulk_queue.queue_url,
            "RefusedQueueUrl": service.delivery.refused_queue.queue_url,
            "AlarmTopicArn": service.alarms.topic.topic_arn,
            "BacklogDatabase": service.backlog.database_name,
        }
        if (jobs := service.compaction.jobs) is not None:
            outputs |= {
                "MergeJob": jobs.merge.job_name,
                "RebuildJob": jobs.rebuild.job_name,
                "ImportJob": jobs.import_.job_name,
            }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
