"""Spark data source and jobs for merging, rebuilding and importing too much data for one function."""

from tidewheel.errors import needs_extra

with needs_extra(__name__, "spark"):
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
