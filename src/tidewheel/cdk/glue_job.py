"""A Glue job on Spark, made of the plain resource: the CDK's own construct for it is in no release before 2.272."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from constructs import Construct


class GlueJob(Construct):
    """A job that runs a Python script on Spark, on G.1X workers, and logs and measures what it does.

    Attributes:
        job_name: Its name in Glue.
        job_arn: Its ARN.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        job_name: str,
        description: str,
        glue_version: str,
        script_url: str,
        role: iam.IRole,
        workers: int,
        timeout: Duration,
        max_retries: int,
        max_concurrent_runs: int,
        arguments: Mapping[str, str],
    ) -> None:
        """Make it.

        Args:
            scope: The construct that it belongs to.
            id_: Its name there.
            job_name: Its name in Glue.
            description: What the console shows.
            glue_version: Such as "6.0".
            script_url: Where the script is, `s3://...`.
            role: What it may do. It gets no statements here.
            workers: G.1X workers of a run, its driver among them.
            timeout: After which a run is stopped.
            max_retries: How often Glue runs it again after a failure.
            max_concurrent_runs: Runs at one time.
            arguments: Default arguments of a run.
        """
        super().__init__(scope, id_)
        resource = glue.CfnJob(
            self,
            "Resource",
            name=job_name,
            description=description,
            glue_version=glue_version,
            command=glue.CfnJob.JobCommandProperty(name="glueetl", python_version="3", script_location=script_url),
            role=role.role_arn,
            worker_type="G.1X",
            number_of_workers=workers,
            timeout=timeout.to_minutes(),
            max_retries=max_retries,
            execution_property=glue.CfnJob.ExecutionPropertyProperty(max_concurrent_runs=max_concurrent_runs),
            job_run_queuing_enabled=False,
            default_arguments={
                "--job-language": "python",
                "--enable-continuous-cloudwatch-log": "true",
                "--enable-metrics": "",
                "--enable-observability-metrics": "true",
                **arguments,
            },
        )
        self.job_name = resource.ref
        self.job_arn = Stack.of(self).format_arn(
            service="glue", resource="job", resource_name=resource.ref, arn_format=ArnFormat.SLASH_RESOURCE_NAME
        )
