"""Compares Tidewheel with other ways of delaying messages, by `python -m benchmarks peers`.

`redis_poller`, `postgres`, `rabbitmq` and `nats_schedules` are servers, each a `server.DelayServer`: `trial` measures
one, `servers` all, and `program` is a server's processes. `tidewheel_stack`, `dynamodb_poller` and `schedules` are ways
on AWS. `account` is an empty emulated AWS with a meter. `stream` makes the messages of all and checks that they
arrived, `waiting` measures the bytes of waiting messages, `costs` a month's bill, and `measure` runs everything.
"""
