"""Glue job: rebuilds the index of one topic. Arguments: --stack, --topic, --dry-run true, --replace true, --slot-s."""

from __future__ import annotations

from tidewheel.jobs.rebuilding import rebuild_index as main

if __name__ == "__main__":
    from tidewheel.spark.glue import on_glue

    on_glue(main)
