"""Creates the Glue jobs of the service."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from tidewheel.cdk.encryption import grant_key, key_of
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.glue_job import GlueJob
from tidewheel.cdk.job_code import NO_INDEX, JobCode, Uploaded, script
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import resource_name, service_name
from tidewheel.shipped import GLUE_JOBS, shipped

TIMEOUT = Duration.minutes(120)
LOG_ACTIONS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
"""The log actions of `AWSGlueServiceRole`, here only for the job's own log groups.

The role's `s3:GetBucketLocation` is left out: by AWS's documentation a job needs only `s3:GetObject`.
`logs:AssociateKmsKey` is for log groups that Glue creates with a security configuration.
https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSGlueServiceRole.html
https://docs.aws.amazon.com/glue/latest/ug/getting-started-min-privs-job.html
"""
JOB_ARGUMENT = "--tidewheel-job"
"""The job argument that names the script, for the local runtime. The script's location is only a hash.

The name is not `--job`, which Glue's `getResolvedOptions` reads as a short form of `--job-bookmark-...`.
"""

NO_SECURITY_CONFIGURATION = (
    "The log groups are the stack's, encrypted like all else; a security configuration would have Glue write to "
    "others, named after role and configuration, which nothing would ever delete. Objects are encrypted as the S3 "
    "bucket says."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The settings in which jobs differ.

    Attributes:
        name: The job's name is `<service>-<name>`.
        script: The job's script is `glue_jobs/<script>.py`.
        description: The description in the console.
        workers: G.1X workers of a run, including the driver.
        max_retries: How often Glue retries a failed run.
        max_concurrent_runs: Runs at one time.
    """

    name: str
    script: str
    description: str
    workers: int
    max_retries: int = 0
    max_concurrent_runs: int = 1


def spark_job(scope: Construct, spec: JobSpec, *, code: JobCode, environment: Environment) -> GlueJob:
    """Creates a job that runs a script of `glue_jobs`.

    The job's role can only read its code and write its logs and metrics. The construct of the job grants further
    permissions.

    Args:
        scope: The construct that the job belongs to.
        spec: The settings of the job.
        code: The packages that the script imports.
        environment: Sets the version of Glue, and how long logs are kept.
    """
    id_ = spec.name.capitalize()
    main = script(scope, f"{id_}Script", shipped(GLUE_JOBS) / f"{spec.script}.py")
    role = _job_role(scope, f"{id_}Role", (main, code.package, code.wheels))
    log_prefix = f"/aws-glue/{resource_name(scope, spec.name)}"
    _make_logs(scope, id_, log_prefix, role, environment)
    job = GlueJob(
        scope,
        id_,
        job_name=resource_name(scope, spec.name),
        description=spec.description,
        glue_version=environment.glue_version,
        script_url=main.url,
        role=role,
        workers=spec.workers,
        timeout=TIMEOUT,
        max_retries=spec.max_retries,
        max_concurrent_runs=spec.max_concurrent_runs,
        arguments={
            JOB_ARGUMENT: spec.script,
            "--stack": service_name(scope),
            "--extra-py-files": code.package.url,
            "--stack-region": Stack.of(scope).region,
            "--additional-python-modules": code.wheels.url,
            "--python-modules-installer-option": NO_INDEX,
            "--custom-logGroup-prefix": log_prefix,
        },
    )
    acknowledge(job, "AwsSolutions-GL1", NO_SECURITY_CONFIGURATION)
    acknowledge(job, "AwsSolutions-GL3", "Bookmarks are off: the jobs have none.")
    return job


def _job_role(scope: Construct, id_: str, code: tuple[Uploaded, ...]) -> iam.Role:
    """Creates a job's role, which may read the code and write metrics.

    The metrics are limited to Glue's namespace. IAM cannot limit metrics to a resource.
    """
    role = iam.Role(scope, id_, assumed_by=iam.ServicePrincipal("glue.amazonaws.com"))
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["s3:GetObject"],
            resources=[each.bucket.arn_for_objects(each.key) for each in code],
        )
    )
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": "Glue"}},
        )
    )
    acknowledge_wildcards(role, ["*"], "CloudWatch knows no resource for metrics; a condition names the namespace.")
    grant_key(role, scope, "dynamodb", "s3")
    return role


def _make_logs(scope: Construct, id_: str, prefix: str, role: iam.Role, environment: Environment) -> None:
    """Creates the two log groups that Glue writes under a prefix.

    One is for Spark and the logger, the other is for standard output.
    """
    for name in ("error", "output"):
        log_group = logs.LogGroup(
            scope,
            f"{id_}{name.capitalize()}Logs",
            log_group_name=f"{prefix}/{name}",
            retention=environment.log_retention,
            removal_policy=environment.log_removal_policy,
            encryption_key=key_of(scope),
        )
        # The groups already exist, but AWS's own policy for jobs allows to create them too, which does no harm here.
        log_group.grant(role, *LOG_ACTIONS)
