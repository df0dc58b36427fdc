"""Creates a Glue job on Spark from CloudFormation's resource.

The CDK's own construct for Glue jobs exists only from release 2.272 on.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from constructs import Construct


class GlueJob(Construct):
    """A job that runs a Python script on Spark, on G.1X workers, with logs and metrics.

    Attributes:
        job_name: The job's name in Glue.
        job_arn: The job's ARN.
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
        """Creates the job.

        Args:
            scope: The construct that the job belongs to.
            id_: The job's name in the scope.
            job_name: The job's name in Glue.
            description: The description in the console.
            glue_version: Such as "6.0".
            script_url: The script's URL, `s3://...`.
            role: The job's role. This construct adds no statements to the role.
            workers: G.1X workers of a run, including the driver.
            timeout: The time after which Glue stops a run.
            max_retries: How often Glue retries a failed run.
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
