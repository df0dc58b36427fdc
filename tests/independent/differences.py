"""Differences of DynamoDB Local, ElasticMQ, versitygw and MiniStack from AWS, and the tests excluded for each.

- DynamoDB Local lets a write wait while a transaction has its item. AWS refuses the write with TransactionConflict. The
  race refuses such writes itself, before they reach the server (tests/independent/network.py).
- DynamoDB Local gives each access key a database of its own, and is started with -sharedDb. On AWS, tables belong to an
  account.
- DynamoDB Local never throttles. AWS throttles a partition above 1,000 write units a second. Tests of throttling plant
  the answer.
- MiniStack 1.5.33 hands CloudFormation's number parameters to an event source mapping as text, and its poller then
  fails. tests/independent/parts/ministack_server.py makes numbers of them.
- MiniStack has neither ListDeadLetterSourceQueues nor StartMessageMoveTask: ministack_server.py answers both, the
  second when all messages are moved.
- MiniStack fails the second delete of a message, where AWS succeeds. After a lost answer the SDK repeats a delete, so
  the story takes `DeleteFailed` for done.
- MiniStack invokes ingest at once, without the bulk queue's window. So the story has its ledgers for a merge in time.
- MiniStack unpacks the archive anew, 180 MB, for each of a function's workers. ministack_server.py unpacks it once.
- MiniStack's DeleteStack removes S3 buckets that have objects. tests/deploy has a CloudFormation that does not.
- MiniStack ends the calls of a function that is updated, where AWS lets them finish. The story waits for ingest first.
- MiniStack calls every Ref to a changed function or archive a conditional replacement.
- MiniStack has pipes from streams only: no pipe reads a subscription's queue.
- MiniStack checks neither the roles of rules, schedules and event source mappings nor iam:PassRole, and no signature of
  its first key. So the commands of the nightly run are a user's. Each function has its role.
- MiniStack authorizes SendMessageBatch and the like as actions of their own, where AWS has the action of one message.
  ministack_server.py names the latter.
- MiniStack authorizes each schedule as of the group `default`: ministack_server.py names the schedule's group.
- MiniStack knows neither dynamodb:LeadingKeys nor a write's dynamodb:Attributes, so a condition with `Null` denies all.
  ministack_server.py adds both. MiniStack has one context for all actions of a transaction, so each action is compared
  with the keys of all, the stricter of the two readings in docs/security.md.
- MiniStack does not know s3:if-none-match: the user who may only send sends no large body.
- MiniStack has no certificate of an authority: the SDK and the functions trust the one that it makes (AWS_CA_BUNDLE).
"""

from __future__ import annotations

EXCLUDED = {
    "test_memory_sqs.py": "compares the SQS in memory with moto's, and moves moto's clock",
    "test_wheel.py::test_each_slot_that_was_armed_has_one_schedule[aws]": "no part has EventBridge Scheduler",
    "test_wheel.py::test_arming_a_slot_again_is_fine_and_changes_nothing[aws]": "no part has EventBridge Scheduler",
    "test_wheel.py::test_all_schedules_of_a_topic_are_deleted_and_no_others[aws]": "no part has EventBridge Scheduler",
}
"""Contract suites and tests that cannot run on the parts, each with the reason."""
