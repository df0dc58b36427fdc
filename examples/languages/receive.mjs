import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";

const [sqs, queue] = [new SQSClient(), { QueueUrl: process.env.QUEUE_URL }];
const wanted = { ...queue, MessageAttributeNames: ["All"], MaxNumberOfMessages: 10, WaitTimeSeconds: 20 };
for (const message of (await sqs.send(new ReceiveMessageCommand(wanted))).Messages ?? []) {
  const { id } = JSON.parse(message.MessageAttributes.tidewheel.StringValue);
  console.log(id, message.Body); // the work of each id, once
  await sqs.send(new DeleteMessageCommand({ ...queue, ReceiptHandle: message.ReceiptHandle }));
}
