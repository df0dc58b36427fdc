"""Tidewheel beside other ways of delaying messages, on the same stream.

    python -m benchmarks.peers [--quick]

| module | what is in it |
|---|---|
| `stream` | the messages that every peer gets, and whether they arrived |
| `account` | an empty emulated AWS with a meter, and what a run on it found |
| `tidewheel_stack`, `redis_poller`, `dynamodb_poller`, `schedules` | the peers |
| `redis_server` | a Redis of our own for as long as it is needed |
| `counted` | requests, divided into those of each message and those of each hour |
| `waiting` | what the messages that wait take up, in memory and stored |
| `peer` | their names and settings |
| `prices`, `costs` | prices that the product does not need; what all of it costs a month |
| `asked`, `crossings` | requests a month; below which rate another way is cheaper |
| `documented` | what was not measured, with its source |
| `measure` | all of it, as figures |
| `plots`, `section` | the plots, and the section of the documentation |
"""
