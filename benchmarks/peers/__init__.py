"""Tidewheel beside other ways of delaying messages, on the same stream: `python -m benchmarks peers`.

`tidewheel_stack`, `redis_poller`, `dynamodb_poller` and `schedules` are the peers. `stream` makes their messages and
checks that all arrived. `account` is an empty emulated AWS with a meter. `waiting` measures the bytes of waiting
messages, `costs` a month's bill, and `measure` runs everything.
"""
