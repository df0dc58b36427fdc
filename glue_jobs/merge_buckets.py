"""Glue job: merges the ledgers of one topic. Arguments: --stack, --topic, --all true."""

from __future__ import annotations

from tidewheel.spark.glue import on_glue
from tidewheel.spark.merging import merge_buckets as main

if __name__ == "__main__":
    on_glue(main)
