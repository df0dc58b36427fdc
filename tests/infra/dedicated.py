"""The stack with topics that have ingest queues of their own."""

from __future__ import annotations

from functools import cache

from infra.local_template import Template, synthesize
from tidewheel.cdk.environment import Environment


@cache
def synthesized(*topics: str) -> Template:
    """Returns the template of a development stack with queues for these topics and a KMS key, as the CDK writes it."""
    return synthesize(Environment.development(dedicated_topics=topics, own_key=True))
