"""The stack with topics that have ingest queues of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from unittest.mock import patch

from infra.application import BUNDLING_STACKS, DEFAULT_STACK, build_app
from infra.environments import ENVIRONMENTS
from infra.local_template import Template


@cache
def synthesized(*topics: str) -> Template:
    """Returns the template of a development stack with queues for these topics, as the CDK writes it."""
    environment = replace(ENVIRONMENTS["development"], dedicated_topics=topics)
    overrides = {BUNDLING_STACKS: [], "environment": "dedicated", "stack": DEFAULT_STACK}
    with patch.dict(ENVIRONMENTS, dedicated=environment), TemporaryDirectory() as folder:
        assembly = build_app(outdir=folder, overrides=overrides).synth()
        template: Template = assembly.get_stack_by_name(DEFAULT_STACK).template
    return template
