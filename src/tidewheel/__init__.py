"""Delayed messages for Amazon SQS: any delay, at S3 prices, with no server."""
