"""Starting merges: small ones on Lambda, large ones on Glue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from tidewheel.flows.ports import MergeSize

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class GlueJobs(Protocol):
    """What is used of boto3's Glue client."""

    def start_job_run(self, *, JobName: str, Arguments: dict[str, str]) -> Any:
        """Starts a run of a job."""
        ...


class AwsMergeRuns:
    """The port `MergeRuns` on Lambda and Glue.

    Args:
        lambda_client: boto3's Lambda client.
        glue_client: boto3's Glue client.
        function_name: the function that merges what is small; invoked with {"topic": ...}.
        job_name: the job that merges what is large; run with --topic.
    """

    def __init__(
        self, lambda_client: LambdaClient, glue_client: GlueJobs, *, function_name: str, job_name: str
    ) -> None:
        self._lambda = lambda_client
        self._glue = glue_client
        self._function_name = function_name
        self._job_name = job_name

    def start(self, topic: str, size: MergeSize) -> None:
        """Starts a merge on its own: one request.

        As many runs as the job may have at once are under way if Glue says so: that counts as started. If none of
        them is this topic's, it still has as much to merge at the next look, and is started then.
        """
        match size:
            case MergeSize.SMALL:
                payload = json.dumps({"topic": topic}).encode()
                self._lambda.invoke(FunctionName=self._function_name, InvocationType="Event", Payload=payload)
            case MergeSize.LARGE:
                self._start_job(topic)

    def _start_job(self, topic: str) -> None:
        try:
            self._glue.start_job_run(JobName=self._job_name, Arguments={"--topic": topic})
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConcurrentRunsExceededException":
                raise
