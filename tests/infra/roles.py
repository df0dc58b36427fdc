"""The roles of the stack, by their logical ids less the hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewheel.local import LocalTidewheel

INGEST, DISPATCH = "IngestionIngestRole", "TimingWheelDispatchRole"
DELIVER, SWEEP = "DeliveryDeliverRole", "TimingWheelSweepRole"
COMPACT, MERGE = "CompactionCompactRole", "CompactionMergeRole"
REBUILD, IMPORT = "CompactionRebuildRole", "CompactionImportRole"
SCHEDULE = "TimingWheelScheduleRole"
SENDERS = (INGEST, DISPATCH, DELIVER)
FUNCTION_ROLES = (*SENDERS, SWEEP, COMPACT)
JOB_ROLES = (MERGE, REBUILD, IMPORT)


def role_arn(stack: LocalTidewheel, role: str) -> str:
    """The ARN of the deployed role with a logical id."""
    roles = stack._emulator.wire.session().client("iam").list_roles(MaxItems=1000)["Roles"]
    [found] = [each["Arn"] for each in roles if f"-{role}" in each["RoleName"]]
    return str(found)
