"""Glue job: imports files of messages. Arguments: --stack, --topic, --input and those of docs/import.md."""

from __future__ import annotations

from tidewheel.spark.importing import import_on_spark as main

if __name__ == "__main__":
    from tidewheel.spark.glue import on_glue

    on_glue(main)
