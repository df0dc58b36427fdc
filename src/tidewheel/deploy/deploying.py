"""Deploys a stack from the templates of the wheel, and removes a stack.

A deployment's writes are, in order: bucket, change set, archives, execution, termination protection, removal of old
archives. Before the execution, a stopped deployment leaves the running service
as it is. After that, CloudFormation goes on by itself. The next deployment completes what is missing.

A removal's writes are, in order: termination protection, objects of the service's S3 bucket, stack, bucket with the
archives. A stopped removal is completed by the next removal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from botocore.config import Config

from tidewheel.bundling.pinned_packages import LAMBDA, interpreter
from tidewheel.deploy.assets import Bucket, archive
from tidewheel.deploy.stack import Description, Progress, Stack
from tidewheel.deploy.templates import (
    ARCHITECTURE,
    ASSETS_KEY,
    BUCKET,
    Template,
    archive_keys,
    default_of,
    settings_given,
    template_for,
)
from tidewheel.deploy.words import STUCK, all_new, kind, lines, loses_data, name_of
from tidewheel.errors import DeployFailed, DeployRefused

if TYPE_CHECKING:
    import boto3

LEAST_CONCURRENCY = 100
"""Fewer concurrent calls of all functions of an account delay messages. New accounts may have ten."""
GLUE_REGIONS = (
    *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)
"""The Regions where a new stack has Spark jobs by default. No API tells which versions of Glue a Region has."""
TRIES = 3
"""Functions may write into a bucket that was just emptied. After the first try, the functions are gone."""
REMOVAL = {
    "AWS::DynamoDB::Table": "aws dynamodb update-table --no-deletion-protection-enabled --table-name {0}; "
    "aws dynamodb delete-table --table-name {0}",
    "AWS::S3::Bucket": "delete all versions of its objects; aws s3 rb s3://{0}",
    "AWS::SQS::Queue": "aws sqs delete-queue --queue-url {0}",
    "AWS::Logs::LogGroup": "aws logs delete-log-group --log-group-name {0}",
}
"""Type of a resource that production keeps -> how to remove the resource."""


class Talk(NamedTuple):
    """The dialogue with a person.

    Attributes:
        say: Prints a line.
        ask: Asks a question. Returns whether to go on.
        progress: Tells how many of how many resources are done.
    """

    say: Callable[[str], None]
    ask: Callable[[str], bool]
    progress: Progress


class Deployment:
    """A stack in an account and a Region, which is deployed or not.

    Attributes:
        place: The stack, the account and the Region, in words.
    """

    def __init__(self, name: str, session: boto3.Session, endpoint_url: str | None, talk: Talk) -> None:
        """Asks AWS for the account.

        Args:
            name: The stack's name.
            session: Has the credentials and the Region.
            endpoint_url: The URL of AWS; None: AWS's own.
            talk: Speaks with a person.
        """
        # CloudFormation reads templates at S3's address, too: the bucket is in the path.
        config = Config(retries={"mode": "standard", "max_attempts": 8}, s3={"addressing_style": "path"})
        self._client: Any = partial(cast(Any, session.client), endpoint_url=endpoint_url, config=config)
        self._say, self._ask = talk.say, talk.ask
        self._account = account = self._client("sts").get_caller_identity()["Account"]
        self._region = session.region_name
        self._stack = Stack(api=self._client("cloudformation"), name=name, progress=talk.progress)
        number = hashlib.sha256(name.encode()).hexdigest()[:10]
        self._assets = self._bucket(f"tidewheel-{account}-{self._region}-{number}")
        self.place = f"stack {name}, account {account}, Region {self._region}"

    def _bucket(self, name: str) -> Bucket:
        return Bucket(s3=self._client("s3"), name=name, owner=self._account)

    def deploy(
        self, *, plan: bool, environment: str | None, spark: bool | None, settings: Mapping[str, str], **request: Any
    ) -> dict[str, Any]:
        """Deploys the stack. Returns the result for programs.

        Args:
            plan: Whether to tell the changes only.
            environment, spark: None: as the deployed stack, or the default.
            settings: Parameters of the template, by the names of settings.
            **request: Parts of CloudFormation's request, such as `Tags`.

        Raises:
            DeployRefused: Nothing was changed.
            DeployFailed: CloudFormation could not make the changes.
        """
        before = self._settled()
        environment, template = self._template(environment, spark, before)
        parameters, archives = self._parameters(template, settings, before)
        request["Parameters"] = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
        self._announce(environment)
        change_set, changes = None, all_new(template)
        prepare = partial(self._assets.prepare, self._region, parameters[ASSETS_KEY])
        if before is not None and not self._assets.has():
            if plan:
                raise DeployRefused(f"the S3 bucket {self._assets.name} is gone: tidewheel deploy makes it again")
            prepare()
        with ExitStack() as unless_done:
            if before is not None:
                tags = {each["Key"]: each for each in (*before.get("Tags", ()), *request.get("Tags", ()))}
                request["Tags"] = [*tags.values()]
                change_set = self._change_set(template, unless_done, new=False, **request)
                changes = change_set["Changes"] if change_set else []
            for line in lines(changes) or ["nothing is new"]:
                self._say(line)
            lost = ", ".join(f"{kind(each['ResourceType'])} {name_of(each)}" for each in changes if loses_data(each))
            wanted = bool(changes) and not plan and not lost and self._ask("Go on?")
            if wanted:
                prepare()
                change_set = change_set or self._change_set(template, unless_done, new=True, **request)
                for key, write in archives.items():
                    if not self._assets.has(key):
                        self._assets.upload(key, write)
                        self._say(f"uploaded {key}")
                unless_done.pop_all()
                if change_set is not None:
                    self._stack.execute(change_set)
        result = {"place": self.place, "environment": environment, "changes": changes, "deployed": wanted}
        if lost:
            advice = "deploy a second stack, and move the messages: tidewheel docs disaster-recovery"
            raise DeployRefused(f"data would, or might, be lost with {lost}: {advice}")
        if wanted or not (plan or changes):
            return {**result, "outputs": self._finish(environment, before)}
        self._say("nothing was changed")
        return result

    def destroy(self, **request: Any) -> dict[str, Any]:
        """Removes the stack, its data unless the environment is production, and last the bucket with the archives.

        Raises:
            DeployRefused: There is nothing to remove, or another program deployed the stack.
            DeployFailed: CloudFormation could not remove a resource.
        """
        found = self._settled()
        if found is None and not self._assets.has():
            raise DeployRefused(f"there is no {self.place}: check --stack, --region and --profile")
        kept, others = ([], []) if found is None else self._stack.contents(found["StackId"])
        self._say(f"{self.place}: {len(others)} resources are removed, and {len(kept)} stay")
        for each in kept:
            self._say(_stays(each["ResourceType"], each["PhysicalResourceId"]))
        wanted = self._ask("All messages are lost, unless the S3 bucket and the table stay. Go on?")
        result = {"place": self.place, "kept": [each["PhysicalResourceId"] for each in kept], "destroyed": wanted}
        if not wanted:
            self._say("nothing was changed")
            return result
        if found is None:  # perhaps a change set that nobody executed
            self._stack.api.delete_stack(StackName=self._stack.name)
        else:
            if found.get("EnableTerminationProtection"):
                self._stack.protect(False)
            for _ in range(TRIES):
                for each in others:
                    if each["ResourceType"] == "AWS::S3::Bucket":
                        self._bucket(each["PhysicalResourceId"]).empty()
                status, failure = self._stack.delete(found["StackId"], len(others), **request)
                if status == "DELETE_COMPLETE":
                    break
            else:
                raise DeployFailed(f"{self.place} is in {status}: {STUCK[status]}. First failure: {failure}")
        self._assets.remove()
        queues = self._client("sqs").list_queues(QueueNamePrefix=f"{self._stack.name}-").get("QueueUrls", [])
        if queues:
            self._say(f"stays: queues of clients, or of stacks named {self._stack.name}-...: {' '.join(queues)}")
        return result

    def _settled(self) -> Description | None:
        """Returns the stack when nobody changes it. Refuses a stack that another program deployed."""
        found = self._stack.settled(self._say)
        if found is None or BUCKET in _named(found, "Parameter"):
            return found
        if "SettingsParameter" not in _named(found, "Output"):
            raise DeployRefused(f"{self.place} is no service of Tidewheel: give another --stack")
        command = f"make deploy STACK={self._stack.name}"
        raise DeployRefused(f"the CDK deployed {self.place}: use {command}, or make destroy, in the clone")

    def _template(
        self, environment: str | None, spark: bool | None, before: Description | None
    ) -> tuple[str, Template]:
        """Returns environment and template: of the deployed stack, since another environment has other protection."""
        if before is not None and (advice := STUCK.get(before["StackStatus"])) is not None:
            raise DeployRefused(f"{self.place} is in {before['StackStatus']}: {advice}")
        outputs = _named(before, "Output")
        environment = environment or outputs.get("Environment", "development")
        if before is not None and environment != outputs.get("Environment"):
            advice = "leave --environment out, or give another --stack"
            raise DeployRefused(f"{self.place} has the environment {outputs.get('Environment')}: {advice}")
        if spark is None:
            spark = self._region in GLUE_REGIONS if before is None else "MergeJob" in outputs
            if before is None and not spark:
                self._say(f"without Spark jobs, since {self._region} may lack Glue 6.0. With --spark, deploy tries it")
        return environment, template_for(environment, spark)

    def _parameters(
        self, template: Template, settings: Mapping[str, str], before: Description | None
    ) -> tuple[dict[str, str], dict[str, Callable[[Path], object]]]:
        """Returns the parameters (given ones, then those of the deployed stack, then defaults), and the archives."""
        defaults = {name: default_of(template, name) for name in template["Parameters"]}
        deployed = {name: value for name, value in _named(before, "Parameter").items() if name in defaults}
        chosen = {**defaults, **deployed, **settings_given(template, settings), BUCKET: self._assets.name}
        archives = {name: archive(name, chosen[ARCHITECTURE]) for name in archive_keys(template)}
        return {**chosen, **{name: key for name, (key, _) in archives.items()}}, dict(archives.values())

    def _change_set(self, template: Template, unless_done: ExitStack, **request: Any) -> Description | None:
        with self._assets.template(json.dumps(template)) as url:
            return self._stack.prepare(unless_done, TemplateURL=url, Capabilities=["CAPABILITY_IAM"], **request)

    def _announce(self, environment: str) -> None:
        """Tells the place, and what makes the service slow there, with advice."""
        self._say(f"{self.place}, environment {environment}")
        limit = self._client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
        if limit < LEAST_CONCURRENCY:
            self._say(
                f"warning: all functions of this account have {limit} concurrent calls, so peaks come late. Ask for "
                "more: aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 "
                f"--desired-value 1000 --region {self._region}"
            )
        if interpreter(LAMBDA.python) is None:
            self._say(
                f"warning: without Python {LAMBDA.python} here, the functions are not compiled, and a cold start takes "
                f"twice the CPU: uv python install {LAMBDA.python}"
            )

    def _finish(self, environment: str, before: Description | None) -> dict[str, str]:
        """Protects production, and deletes archives that neither the stack nor a rollback needs. Returns outputs."""
        found = self._stack.describe() or {}
        if environment == "production" and not found.get("EnableTerminationProtection"):
            self._stack.protect(True)
        self._assets.keep({*_named(before, "Parameter").values(), *_named(found, "Parameter").values()})
        return _named(found, "Output")


def _named(found: Description | None, kind_: str) -> dict[str, str]:
    """Returns a stack's parameters or outputs."""
    listed = (found or {}).get(f"{kind_}s", [])
    return {each[f"{kind_}Key"]: each[f"{kind_}Value"] for each in listed}


def _stays(type_: str, name: str) -> str:
    return f"stays: {kind(type_)} {name}. To remove it: {REMOVAL.get(type_, 'see its console').format(name)}"
