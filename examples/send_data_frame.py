"""Send a Spark DataFrame, or a stream of them, as messages."""

# region send
from pyspark.sql import DataFrame

from tidewheel.spark.session import register


def send(frame: DataFrame, token: str, **options: str) -> None:
    """Sends each row as one message. Takes topic="orders", and the options of the table below."""
    register(frame.sparkSession)
    frame.write.format("tidewheel.ledger").options(token=token, **options).mode("append").save()


def send_stream(frame: DataFrame, name: str, folder: str, **options: str) -> None:
    """Sends what a stream has now. After a failure, Spark gives the same batch again, with the same number."""
    stream = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", folder)
    stream.foreachBatch(lambda batch, number: send(batch, f"{name}-{number}", **options)).start().awaitTermination()


# endregion
