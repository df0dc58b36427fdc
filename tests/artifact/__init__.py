"""Runs the archives on one machine with the real Lambda runtime client, HTTP endpoints and simulated time.

| module | holds |
|---|---|
| `archive.py`, `parts.py` | the archive, Lambda's runtime, the SDK, the template |
| `template.py`, `deployment.py` | the synthesized template, and its resources made by plain API calls |
| `moved_clock.py`, `inside/` | time that the harness moves; programs that run inside the other processes |
| `execution.py`, `functions.py` | one Lambda environment behind the runtime API; all of them, and repeats |
| `http_service.py`, `control_plane.py`, `schedules.py` | Invoke, EventBridge Scheduler, SSM, StartJobRun over HTTP |
| `queue_watch.py`, `event_source.py` | SQS seen on its way; event source mappings |
| `cloud.py`, `sdk.py` | all of it, moved from each due thing to the next; the SDK as a program in a third place |
| `scenario.py`, `oracle.py`, `service.py` | the messages, on any service; the verdict |
"""
