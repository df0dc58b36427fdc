"""The tested stacks, from the app's own environments and optional features."""

from __future__ import annotations

from functools import cache

import pytest

from infra.local_template import Template, synthesize
from tidewheel.cdk.environment import Environment

READER_ARN = "arn:aws:iam::111122223333:role/reader"
KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"

VARIANTS: dict[str, Environment] = {
    "development": Environment.development(),
    "production": Environment.production(),
    "a key of its own": Environment.production(own_key=True),
    "development with a key": Environment.development(own_key=True),
    "an existing key": Environment.development(encryption_key_arn=KEY_ARN, access_log_bucket="team-access-logs"),
    "topics with queues of their own": Environment.production(
        dedicated_topics=("orders", "Default"),
        reserved_concurrency={"ingest": 360, "dispatch": 50},
        warm_read_units=20_000,
        warm_write_units=10_000,
        import_role_arns=(READER_ARN,),
    ),
}
"""What is asked of every stack is asked of each of these."""
_SAMPLE = ("development with a key", "topics with queues of their own")
"""Between them they have what the others have: a key or none, alarms or none."""
SAMPLED_VARIANTS = [pytest.param(each, marks=[] if each in _SAMPLE else pytest.mark.long) for each in VARIANTS]
"""Parameters of tests that take a second for each variant. `make test` asks the sample."""


@cache
def template_of(variant: str) -> Template:
    """Returns the shared template of a variant. Tests must not change the template."""
    return synthesize(VARIANTS[variant])
