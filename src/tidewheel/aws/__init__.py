"""Implements the ports of the flows on DynamoDB, S3, SQS and EventBridge Scheduler."""
