"""One trial from the deployment to the removal, which comes whatever happens before."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from smoke.cloud import Cloud
from smoke.health import health
from smoke.interrupts import patient
from smoke.price import used_dollars
from smoke.rebuilding import RebuildOn
from smoke.record import Record
from smoke.removal import Removal, remove
from smoke.report import Report
from smoke.scenario import play
from smoke.verdict import Check, copies, precision, verdict

Say = Callable[[str], None]


def run(cloud: Cloud, *, rebuild_on: RebuildOn, keep: bool, say: Say) -> Report:
    """Deploys, plays, checks, and removes; never raises what a trial can report.

    Args:
        keep: leave everything as it is at the end, unless the deployment failed or somebody stopped the trial.
    """
    started_ms = began_ms = cloud.clock.now_ms()
    report = Report(stack=cloud.stack_name, began_at=datetime.fromtimestamp(started_ms / 1000, UTC).isoformat())
    record = Record()
    deployed = False
    try:
        say(f"deploying {cloud.stack_name}")
        cloud.deploy()
        deployed = True
        began_ms = cloud.clock.now_ms()
        play(cloud, record, report.checks, rebuild_on=rebuild_on, say=say)
    except KeyboardInterrupt:
        report.interrupted = True
        say("interrupted: removing what was made")
    except Exception as error:
        traceback.print_exc()
        _failed(report, error)
    try:
        _judge(report, record)
        if deployed and not report.interrupted:
            _look(cloud, report, rebuild_on, began_ms)
    except KeyboardInterrupt:
        report.interrupted = True
        say("interrupted: removing what was made")
    finally:
        if not keep or report.interrupted or not deployed:
            _remove(cloud, report, say)
        else:
            cloud.deafen()
    report.took_s = (cloud.clock.now_ms() - started_ms) // 1000
    return report


def _failed(report: Report, error: Exception) -> None:
    detail = f"{type(error).__name__}: {error}"
    report.checks.append(Check(name="the trial comes to its end", passed=False, detail=detail))


def _judge(report: Report, record: Record) -> None:
    """Judges what was received; also of a trial that broke off, of which much may not have come yet."""
    if not record.all_sent():
        return
    report.checks += verdict(record)
    for what, count in record.troubles().items():
        report.checks.append(Check(name="receiving works", passed=False, detail=f"{count} times: {what}"))
    report.precision = precision(record)
    report.sent, report.received, report.copies = len(record.all_sent()), len(record.arrivals()), copies(record)


def _look(cloud: Cloud, report: Report, rebuild_on: RebuildOn, began_ms: int) -> None:
    """Asks how the service is, and what it used; a question without an answer is a failed check."""
    try:
        report.usage = cloud.usage(began_ms)
        report.dollars = used_dollars(report.usage, rebuild_on)
        report.checks += health(cloud, report.usage)
    except (ClientError, BotoCoreError) as error:
        _failed(report, error)


def _remove(cloud: Cloud, report: Report, say: Say) -> None:
    """Removes everything; a second Ctrl-C ends it, and the report says so."""
    report.removal = Removal()
    try:
        with patient(say):
            cloud.deafen()
            remove(cloud.session, cloud.stack_name, report.removal, say)
    except KeyboardInterrupt:
        report.interrupted = True
