"""The settings of a service that is nowhere, for tests of the client and of policies."""

from __future__ import annotations

from typing import Any

from tidewheel.model.settings import ServiceSettings

NOWHERE = {
    "stack": "tw",
    "table": "table",
    "s3_bucket": "objects",
    **{f"{role}_queue_url": role for role in ("urgent", "bulk", "work", "refused")},
    "schedule_group": "group",
    "schedule_role_arn": "role",
    "dispatch_arn": "dispatch",
    "schedule_dead_letter_arn": "dead",
    "compact_function": "compact",
    "merge_job": "merge",
}


def service_settings(**given: Any) -> ServiceSettings:
    """Returns settings, with some values given."""
    return ServiceSettings(**(NOWHERE | given))
