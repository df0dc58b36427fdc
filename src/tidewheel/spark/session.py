"""Sets up Spark on this machine for ledgers.

AWS Glue has a session already. Give it to `register`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from tidewheel.jobs.variables import environment
from tidewheel.spark.java import find_java, make_java_home
from tidewheel.spark.ledger_sink import LedgerSource

_LOCAL_HOST = "127.0.0.1"
TRIES = 4
"""Tries of a task that raises, or whose worker dies: Spark's default on a cluster."""
_BATCH_BYTES = 16 * 1024 * 1024
_QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def local_session(cores: int | None = None, *, memory_mb: int = 2048) -> SparkSession:
    """Returns a Spark session in this process with the data source `tidewheel.ledger`.

    A process has one session. If it runs already, it is returned unchanged, whatever the arguments.

    Args:
        cores: tasks that run side by side; one for each processor by default.
        memory_mb: the limit of Java's heap; Python's workers need memory on top.

    Raises:
        JavaMissing: Spark runs on Java, and there is none.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        with tempfile.TemporaryDirectory(prefix="tidewheel-spark-") as folder:
            logging = Path(folder) / "log4j2.properties"
            logging.write_text(_QUIET)
            master = f"local[{cores or os.cpu_count()},{TRIES}]"
            builder = SparkSession.builder.master(master).appName("tidewheel")
            for name, value in _settings(cores, memory_mb, logging).items():
                builder = builder.config(name, value)
            with environment(_environment(make_java_home(find_java(), Path(folder)))):
                spark = builder.getOrCreate()
    return register(spark)


def register(spark: SparkSession) -> SparkSession:
    """Registers `tidewheel.ledger` in a session. Returns the session.

    Bounds the batches that Python gets by bytes: Spark's own bound is four times as large.
    """
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", _BATCH_BYTES)
    spark.dataSource.register(LedgerSource)
    return spark


def _settings(cores: int | None, memory_mb: int, logging: Path) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": _LOCAL_HOST,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.driver.host": _LOCAL_HOST,
        "spark.driver.memory": f"{memory_mb}m",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (cores or os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/tidewheel-warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _environment(java_home: Path) -> dict[str, str]:
    """Returns the environment variables that Spark reads."""
    return {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": _LOCAL_HOST,
    }
