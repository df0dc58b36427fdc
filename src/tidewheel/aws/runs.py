"""Starts functions on Lambda and jobs on Glue."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidewheel.errors import NotConfigured
from tidewheel.flows.ports import MergeSize

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


@dataclass(eq=False)
class AwsRuns:
    """Implements the port `Runs` on Lambda and Glue, with a single request for each call.

    Attributes:
        lambda_client: returns boto3's Lambda client.
        glue_client: returns boto3's Glue client.
        dispatch_function: name or ARN of the dispatch function; invoked with {"topic": ...}.
        compact_function: name of the function for small merges; invoked likewise.
        merge_job: the job for large merges; run with --topic. None: no such job is deployed.
    """

    lambda_client: Callable[[], LambdaClient]
    glue_client: Callable[[], Any]
    _: KW_ONLY
    dispatch_function: str
    compact_function: str
    merge_job: str | None

    @property
    def largest(self) -> MergeSize:
        """Returns LARGE if the merge job is deployed, else SMALL."""
        return MergeSize.SMALL if self.merge_job is None else MergeSize.LARGE

    def dispatch(self, topic: str) -> None:
        """Invokes the dispatch function asynchronously."""
        self._invoke(self.dispatch_function, topic)

    def merge(self, topic: str) -> None:
        """Invokes the function asynchronously."""
        self._invoke(self.compact_function, topic)

    def merge_large(self, topics: Sequence[str]) -> bool:
        """Starts a run of the job.

        Returns:
            False if a run of the job is under way.

        Raises:
            NotConfigured: the stack has no job.
        """
        if self.merge_job is None:
            raise NotConfigured(
                f"topics {', '.join(topics)}: merges are too large for a function, and the stack has no Spark jobs"
            )
        try:
            self.glue_client().start_job_run(JobName=self.merge_job, Arguments={"--topic": ",".join(topics)})
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConcurrentRunsExceededException":
                raise
            return False
        return True

    def _invoke(self, function: str, topic: str) -> None:
        payload = json.dumps({"topic": topic}).encode()
        self.lambda_client().invoke(FunctionName=function, InvocationType="Event", Payload=payload)
