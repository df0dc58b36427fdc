"""The local stack in real time: a background thread does all due work, and any AWS client can connect."""

# region real
import boto3

from tidewheel.local import LocalTidewheel

with LocalTidewheel(clock="real") as stack:
    tw = stack.client()
    tw.create_topic("orders")
    subscription = tw.create_subscription("orders", "billing")
    tw.send("orders", "hello", delay=2)

    sqs = boto3.client(
        "sqs",
        endpoint_url=stack.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    answer = sqs.receive_message(QueueUrl=subscription.queue_url, WaitTimeSeconds=20)
    assert answer["Messages"][0]["Body"] == "hello"
# endregion
