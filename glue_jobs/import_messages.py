"""Glue job: imports files of messages. Arguments: --stack, --topic, --input and those of docs/import.md."""

from __future__ import annotations

from tidewheel.jobs.importing.driver import import_messages

main = import_messages
"""What this machine runs, in processes of its own."""

if __name__ == "__main__":
    from tidewheel.spark.glue import import_on_spark, on_glue

    on_glue(import_on_spark)
