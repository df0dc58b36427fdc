"""The whole play: every act once, in an order in which none waits for another."""

from __future__ import annotations

from collections.abc import Callable

from smoke import merging
from smoke.breakage import Breakage
from smoke.cloud import Cloud
from smoke.merging import Merging
from smoke.mix import Mix
from smoke.rebuilding import Rebuilding, RebuildOn
from smoke.record import Record
from smoke.skew import measure_skew
from smoke.stage import Stage
from smoke.verdict import Check

PROBE_QUEUE = "clock"
_ARRIVAL_S = 120
"""How long after the last message was due it may still arrive before it is called lost."""
_QUIET_S = 60
"""How long to listen for what must not arrive."""


def play(
    cloud: Cloud,
    record: Record,
    checks: list[Check],
    *,
    rebuild_on: RebuildOn,
    say: Callable[[str], None],
) -> None:
    """Does everything; what it finds is in `record` and `checks`, also when it is interrupted.

    Raises:
        TidewheelError, botocore.exceptions.ClientError: a call that must work did not.
    """
    stage = Stage(
        cloud=cloud,
        tw=cloud.client(),
        sqs=cloud.session.client("sqs"),
        record=record,
        began_ms=cloud.clock.now_ms(),
        say=say,
        checks=checks,
    )
    _compare_clocks(stage)
    mix, breakage, merges = Mix(stage), Breakage(stage), Merging(stage)
    rebuilding = Rebuilding(stage, rebuild_on)
    breakage.prepare()
    mix.prepare()
    merges.prepare()
    rebuilding.prepare()
    mix.send()
    mix.change()
    breakage.send()
    merges.send()
    rebuilding.send()
    rebuilding.rebuild()
    breakage.mend()
    mix.resume()
    breakage.check_mended()
    merges.check_merged()
    _wait_for_all(stage)
    _empty(stage)


def _compare_clocks(stage: Stage) -> None:
    name = f"{stage.cloud.stack_name}-{PROBE_QUEUE}"
    url = stage.sqs.create_queue(QueueName=name)["QueueUrl"]
    stage.record.skew = skew = measure_skew(stage.sqs, url, stage.cloud.clock)
    stage.tell(f"this clock is {-skew.offset_ms:+,} ms from SQS's, known to {skew.uncertainty_ms:,} ms")


def _wait_for_all(stage: Stage) -> None:
    """Waits until all has arrived, or should have; then a little longer, for what should not."""
    last_ms = max(each.deliver_at_ms for each in stage.record.all_sent() if each.readers)
    left_s = (last_ms - stage.cloud.clock.now_ms()) // 1000
    stage.tell(f"{len(stage.record.outstanding())} deliveries are still to come; the last is due in {max(0, left_s)} s")
    stage.until(lambda: not stage.record.outstanding(), within_s=max(0, left_s) + _ARRIVAL_S)
    stage.cloud.sleep(_QUIET_S)


def _empty(stage: Stage) -> None:
    """Purges what is due in days."""
    stage.tw.purge(merging.TOPIC)
    waiting = stage.tw.stats(merging.TOPIC).waiting
    stage.check("a purged topic has nothing waiting", waiting == 0, f"{waiting} messages wait")
