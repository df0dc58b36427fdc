"""The roles of the stack, by their logical ids less the hashes."""

from __future__ import annotations

INGEST, DISPATCH = "IngestionIngestRole", "TimingWheelDispatchRole"
DELIVER, SWEEP = "DeliveryDeliverRole", "TimingWheelSweepRole"
COMPACT, MERGE = "CompactionCompactRole", "CompactionMergeRole"
REBUILD, IMPORT = "CompactionRebuildRole", "CompactionImportRole"
SCHEDULE = "TimingWheelScheduleRole"
SENDERS = (INGEST, DISPATCH, DELIVER)
FUNCTION_ROLES = (*SENDERS, SWEEP, COMPACT)
JOB_ROLES = (MERGE, REBUILD, IMPORT)
