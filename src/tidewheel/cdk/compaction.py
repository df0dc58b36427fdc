"""Deploys the merge function, and the Spark jobs for merging, rebuilding and importing."""

from __future__ import annotations

from typing import NamedTuple

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import Foundation, limit_asynchronous_calls, python_function
from tidewheel.cdk.job_code import JobCode
from tidewheel.cdk.names import resource_name, service_name
from tidewheel.cdk.spark_jobs import JobSpec, SparkJob
from tidewheel.cdk.statements import allow
from tidewheel.cdk.storage import ITEM_WRITES, KEYS, LISTED, NOTES, TOMBSTONES, TOPICS, Storage
from tidewheel.model.object_names import ASIDE, CHECKPOINTS, IMPORTS, LEDGERS, PLANS
from tidewheel.model.settings import MAX_FUNCTION_S, parameter_name
from tidewheel.model.triggers import RETRIES

COMPACT_TIMEOUT = Duration.seconds(MAX_FUNCTION_S)

COMPACT_AGE = Duration.minutes(15)
"""The longest that a call may wait. The sweep requests the merge again when new ledgers come."""

WRITING = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")


class SparkJobs(NamedTuple):
    """The Glue jobs of a service.

    Attributes:
        merge: Merges a topic's ledgers.
        rebuild: Recreates a topic's metadata from its ledgers.
        import_: Turns files of messages into ledgers.
    """

    merge: SparkJob
    rebuild: SparkJob
    import_: SparkJob


class Compaction(Construct):
    """A function for small merges, a Glue job for large merges, and two jobs that operators start.

    Attributes:
        function_name: Name of the function, for the settings.
        merge_job_name: Name of the merge job, for the settings; None without Spark.
        compact: Merges a topic's ledgers in memory.
        jobs: The jobs; None without Spark.
    """

    def __init__(self, scope: Construct, id_: str, foundation: Foundation, *, dead_letters: sqs.IQueue) -> None:
        """Creates the function, and the jobs if the environment has Spark."""
        super().__init__(scope, id_)
        self.function_name = resource_name(self, "compact")
        self.compact = self._compact(foundation, dead_letters)
        self.jobs: SparkJobs | None = None
        self.merge_job_name: str | None = None
        if foundation.environment.spark:
            self.merge_job_name = resource_name(self, "merge")
            self.jobs = self._jobs(foundation.environment)
            self._allow_jobs(self.jobs, foundation.storage, foundation.environment)

    def grant_start(self, grantee: iam.IGrantable) -> None:
        """Allows to start small and large merges."""
        allow(grantee, ["lambda:InvokeFunction"], [self.compact.function_arn])
        if self.jobs is not None:
            allow(grantee, ["glue:StartJobRun"], [self.jobs.merge.job_arn])

    def _compact(self, foundation: Foundation, dead_letters: sqs.IQueue) -> lambda_.Function:
        """Creates the function, without retries by Lambda.

        A run that died still holds the lease, so a retry would fail. New ledgers start the next merge.
        """
        does = "merges the ledgers of one topic when they are small"
        compact = python_function(self, "compact", foundation, COMPACT_TIMEOUT, does)
        limit_asynchronous_calls(compact, max_age=COMPACT_AGE, retries=RETRIES["compact"], dead_letters=dead_letters)
        _allow_merging(compact, foundation.storage)
        foundation.storage.grant_listing(compact)
        return compact

    def _jobs(self, environment: Environment) -> SparkJobs:
        code = JobCode(self, "JobCode")
        merges, anew = "merges ledgers that are too large for compact", "makes a topic's metadata anew from its ledgers"
        specs = (
            JobSpec("merge", "merge_buckets", merges, environment.merge_workers, max_retries=1, may_wait=True),
            JobSpec("rebuild", "rebuild_index", anew, environment.rebuild_workers),
            JobSpec("import", "import_messages", "turns files of messages into ledgers", environment.import_workers),
        )
        return SparkJobs(*(SparkJob(self, spec, code=code, environment=environment) for spec in specs))

    def _allow_jobs(self, jobs: SparkJobs, storage: Storage, environment: Environment) -> None:
        """Allows each job its own prefixes, the table and the settings."""
        settings = Stack.of(self).format_arn(
            service="ssm", resource="parameter", resource_name=parameter_name(service_name(self)).removeprefix("/")
        )
        merge, rebuild, import_ = (job.role for job in jobs)
        for role in (merge, rebuild, import_):
            allow(role, ["ssm:GetParameter"], [settings])
            storage.grant_listing(role)
        _allow_merging(merge, storage)
        storage.grant_items(rebuild, TOPICS, *ITEM_WRITES)
        storage.grant_items(rebuild, TOMBSTONES, "dynamodb:PutItem", "dynamodb:Query")
        storage.grant_items(rebuild, LISTED, "dynamodb:PutItem")
        storage.grant_items(rebuild, NOTES, "dynamodb:PutItem")  # the note that a topic is away
        storage.grant_items(rebuild, KEYS, "dynamodb:PutItem", "dynamodb:Query")
        # The rest of a damaged ledger is written anew.
        storage.grant_objects(rebuild, *WRITING, prefixes=(LEDGERS,))
        storage.grant_objects(rebuild, "s3:GetObject", "s3:DeleteObject", prefixes=(CHECKPOINTS, PLANS))
        storage.grant_objects(rebuild, "s3:PutObject", prefixes=(CHECKPOINTS, ASIDE))
        reads = ("dynamodb:GetItem", "dynamodb:Query")
        storage.grant_items(import_, TOPICS, *reads, "dynamodb:PutItem", "dynamodb:UpdateItem")
        storage.grant_objects(import_, *WRITING, prefixes=(LEDGERS, IMPORTS))
        if environment.import_role_arns:
            allow(import_, ["sts:AssumeRole"], environment.import_role_arns)


def _allow_merging(grantee: iam.IGrantable, storage: Storage) -> None:
    """Allows to merge a topic's ledgers. A merge leaves cancelled rows out."""
    storage.grant_items(grantee, TOPICS, *ITEM_WRITES)
    storage.grant_items(grantee, TOMBSTONES, "dynamodb:Query")
    storage.grant_objects(grantee, *WRITING, prefixes=(LEDGERS,))
