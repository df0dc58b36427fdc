"""Spark data source and jobs for merging, rebuilding and importing too much data for one function.

Raises ImportError on a Spark older than 4.1, which has no data sources in Python with Arrow.
"""

from tidewheel.errors import needs_extra

with needs_extra(__name__, "spark"):
    import pyarrow  # noqa: F401
    import pyspark

if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
    raise ImportError(f"{__name__} needs Spark 4.1, found {pyspark.__version__}")
