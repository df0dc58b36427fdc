"""The release gate without moto, with DynamoDB Local, ElasticMQ and versitygw as DynamoDB, SQS and S3.

    make test-independent

`fetch` brings the parts, `servers` runs them, `differences` lists where they are not AWS. `race` lets sixteen threads
work on one topic's state. The contract suites are those of `tests/contract`. `ministack` runs a whole AWS in Python.
"""
