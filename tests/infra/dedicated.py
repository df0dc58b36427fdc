"""The stack with topics on dedicated ingest queues."""

from __future__ import annotations

from functools import cache

from infra.local_template import Template, synthesize
from tidewheel.cdk.environment import Environment


@cache
def synthesized(*topics: str) -> Template:
    """Returns the template of a development stack with a KMS key and dedicated queues for the topics."""
    return synthesize(Environment.development(dedicated_topics=topics, own_key=True))
