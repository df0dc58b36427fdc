"""Send a Spark DataFrame, or a stream of them, as messages."""

# region send
from pyspark.sql import DataFrame

from tidewheel.spark.session import register


def send(frame: DataFrame, token: str, **options: str) -> None:
    """Sends each row as one message. Takes topic="orders", and the options of the table below."""
    register(frame.sparkSession)
    frame.write.format("tidewheel.ledger").options(token=token, **options).mode("append").save()


def send_in_order(frame: DataFrame, token: str, partitions: int, **options: str) -> None:
    """Sends rows that are in no order of time. Partitions that overlap in time make merges expensive."""
    ordered = frame.repartitionByRange(partitions, "deliver_at").sortWithinPartitions("deliver_at")
    send(ordered, token, **options)


def send_stream(frame: DataFrame, name: str, folder: str, **options: str) -> None:
    """Sends what a stream has now, each batch once. Takes rejects="s3://..." too, and keeps its place in a folder."""
    register(frame.sparkSession)
    stream = frame.writeStream.format("tidewheel.ledger").options(name=name, **options)
    stream.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()


# endregion
