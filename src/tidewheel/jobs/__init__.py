"""Jobs for much data: merge, rebuild and import. They run in this process or on Spark, with the same code a task."""

from tidewheel.errors import needs_extra

with needs_extra(__name__, "local"):
    import pyarrow  # noqa: F401
