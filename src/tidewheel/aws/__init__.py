"""The ports of the flows on AWS: DynamoDB, S3, SQS and EventBridge Scheduler."""
