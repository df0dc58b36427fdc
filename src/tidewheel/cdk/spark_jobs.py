"""Creates the Glue jobs of the service, from CloudFormation's resource.

The CDK's own construct for Glue jobs exists only from release 2.272 on.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from constructs import Construct

from tidewheel.bundling.jobs import NO_INDEX
from tidewheel.cdk.encryption import grant_key, make_log_group
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.job_code import JobCode, Uploaded, script
from tidewheel.cdk.nag_suppressions import acknowledge, acknowledge_wildcards
from tidewheel.cdk.names import resource_name, service_name
from tidewheel.cdk.statements import allow
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


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The settings in which jobs differ.

    Attributes:
        name: The job's name is `<service>-<name>`.
        script: The job's script is `glue_jobs/<script>.py`.
        does: What the job does, for its description in the console.
        workers: The most G.1X workers of a run, including the driver. Glue starts as many as there are tasks.
        max_retries: How often Glue retries a failed run.
        may_wait: The run may begin later and take longer, for a lower price.
    """

    name: str
    script: str
    does: str
    workers: int
    max_retries: int = 0
    may_wait: bool = False


class SparkJob(Construct):
    """A job for a script of `glue_jobs`, on Spark and G.1X workers, with logs and metrics.

    Attributes:
        job_name: The job's name in Glue.
        job_arn: The job's ARN.
        role: The job's role. It can only read the code, and write logs and metrics. The construct of the job grants
            further permissions.
    """

    def __init__(self, scope: Construct, spec: JobSpec, *, code: JobCode, environment: Environment) -> None:
        """Creates the job, with a role and log groups.

        Args:
            scope: The construct that the job belongs to.
            spec: The settings of the job.
            code: The packages that the script imports.
            environment: Sets the version of Glue, and how long logs are kept.
        """
        id_ = spec.name.capitalize()
        main = script(scope, f"{id_}Script", shipped(GLUE_JOBS) / f"{spec.script}.py")
        self.role = _job_role(scope, f"{id_}Role", (main, code.package, code.wheels))
        log_prefix = f"/aws-glue/{resource_name(scope, spec.name)}"
        _make_logs(scope, id_, log_prefix, self.role, environment)
        super().__init__(scope, id_)
        resource = glue.CfnJob(
            self,
            "Resource",
            name=resource_name(scope, spec.name),
            description=f"Tidewheel: {spec.does}",
            glue_version=environment.glue_version,
            command=glue.CfnJob.JobCommandProperty(name="glueetl", python_version="3", script_location=main.url),
            role=self.role.role_arn,
            worker_type="G.1X",
            number_of_workers=spec.workers,
            timeout=TIMEOUT.to_minutes(),
            max_retries=spec.max_retries,
            execution_property=glue.CfnJob.ExecutionPropertyProperty(max_concurrent_runs=1),
            execution_class="FLEX" if spec.may_wait else "STANDARD",
            job_run_queuing_enabled=False,
            default_arguments={
                "--job-language": "python",
                "--enable-continuous-cloudwatch-log": "true",
                "--enable-auto-scaling": "true",
                "--enable-metrics": "",
                "--enable-observability-metrics": "true",
                JOB_ARGUMENT: spec.script,
                "--stack": service_name(scope),
                "--extra-py-files": code.package.url,
                "--stack-region": Stack.of(scope).region,
                "--additional-python-modules": code.wheels.url,
                "--python-modules-installer-option": NO_INDEX,
                "--custom-logGroup-prefix": log_prefix,
            },
        )
        self.job_name = resource.ref
        self.job_arn = Stack.of(self).format_arn(
            service="glue", resource="job", resource_name=resource.ref, arn_format=ArnFormat.SLASH_RESOURCE_NAME
        )
        acknowledge(self, "AwsSolutions-GL1", NO_SECURITY_CONFIGURATION)
        acknowledge(self, "AwsSolutions-GL3", "Bookmarks are off: the jobs have none.")


def _job_role(scope: Construct, id_: str, code: tuple[Uploaded, ...]) -> iam.Role:
    """Creates a job's role, which may read the code and write metrics.

    Without the right to list, S3 answers that a missing file is forbidden. The S3 bucket of the code may be encrypted
    with a key that is not known here: the context of the encryption names the bucket, or the object.

    The metrics are limited to Glue's namespace. IAM cannot limit metrics to a resource. AWS documents no source with
    which Glue assumes a role, so the trust has no condition.
    """
    role = iam.Role(scope, id_, assumed_by=iam.ServicePrincipal("glue.amazonaws.com"))
    allow(role, ["s3:GetObject"], [each.bucket.arn_for_objects(each.key) for each in code])
    arn = code[0].bucket.bucket_arn
    allow(role, ["s3:ListBucket"], [arn], {"StringEquals": {"s3:prefix": [each.key for each in code]}})
    through = {"StringEquals": {"kms:ViaService": f"s3.{Aws.REGION}.{Aws.URL_SUFFIX}"}}
    of_code = {"StringLike": {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"]}}
    allow(role, ["kms:Decrypt"], ["*"], through | of_code)
    allow(role, ["cloudwatch:PutMetricData"], ["*"], {"StringEquals": {"cloudwatch:namespace": "Glue"}})
    acknowledge_wildcards(role, ["*"], "Conditions name the metrics' namespace, and the S3 bucket that a key decrypts.")
    grant_key(role, scope, "dynamodb", "s3")
    return role


def _make_logs(scope: Construct, id_: str, prefix: str, role: iam.Role, environment: Environment) -> None:
    """Creates the two log groups that Glue writes under a prefix.

    One is for Spark and the logger, the other is for standard output.
    """
    for name in ("error", "output"):
        log_group = make_log_group(scope, f"{id_}{name.capitalize()}Logs", f"{prefix}/{name}", environment)
        # The groups already exist, but AWS's own policy for jobs allows to create them too, which does no harm here.
        log_group.grant(role, *LOG_ACTIONS)
