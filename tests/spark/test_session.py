"""Spark sessions on one machine."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidewheel.spark.session import local_session, register

PROGRAM = """
from tidewheel.spark.session import local_session
spark = local_session(1)
print(spark.range(3).count(), local_session(7) is spark, spark.sparkContext.master)
spark.stop()
print(local_session(2).sparkContext.master)
"""

OLDER = """
import pyspark
pyspark.__version__ = "3.5.6"
try:
    import tidewheel.spark.session
except ImportError as error:
    print(error)
"""


def test_an_older_spark_is_refused_by_name_at_import() -> None:
    answer = subprocess.run([sys.executable, "-c", OLDER], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "tidewheel.spark needs Spark 4.1, found 3.5.6\n"


def test_a_session_starts_without_a_word_and_again_after_it_was_stopped() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert answer.stdout.split() == ["3", "True", "local[1,4]", "local[2,4]"]
    assert answer.stderr == ""


def test_a_second_call_returns_the_running_session(spark: SparkSession) -> None:
    assert local_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2,4]"


def test_a_session_keeps_its_time_zone(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        register(spark)
        assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_the_data_source_says_how_ledgers_are_read(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"it only writes: read a topic's live view, as docs/query\.md shows"):
        spark.read.format("tidewheel.ledger").load()
