import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";

const text = (value) => ({ DataType: "String", StringValue: value });
await new SQSClient().send(
  new SendMessageCommand({
    QueueUrl: process.env.TIDEWHEEL_ADDRESS,
    MessageBody: JSON.stringify({ id: 17 }),
    MessageAttributes: { "tidewheel.topic": text("orders"), "tidewheel.delay": text("3d") },
  }),
);
