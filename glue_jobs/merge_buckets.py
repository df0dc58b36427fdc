"""Glue job: merges the ledgers of topics. Arguments: --stack, --topic a,b (by default all topics), --all true."""

from __future__ import annotations

from tidewheel.jobs.merging import merge_buckets as main

if __name__ == "__main__":
    from tidewheel.spark.glue import on_glue

    on_glue(main)
