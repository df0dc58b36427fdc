"""Send a Spark DataFrame, or a stream of them, as messages."""

# region send
from pyspark.sql import DataFrame

from tidewheel.spark.session import register


def send(frame: DataFrame, token: str, **options: str) -> None:
    """Sends a row a message. It takes topic="orders", and what the table below names."""
    register(frame.sparkSession)
    frame.write.format("tidewheel.ledger").options(token=token, **options).mode("append").save()


def send_stream(frame: DataFrame, folder: str, **options: str) -> None:
    """Sends what a stream has now. Spark gives a batch that failed again, with its number."""
    stream = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", folder)
    stream.foreachBatch(lambda batch, number: send(batch, f"stream-{number}", **options)).start().awaitTermination()


# endregion
