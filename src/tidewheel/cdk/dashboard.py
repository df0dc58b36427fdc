"""Creates the dashboard, which shows whether messages are late, and why.

Read it from the top down, and stop at the first row without a problem.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from aws_cdk.aws_cloudwatch import (
    GraphWidget,
    HorizontalAnnotation,
    IMetric,
    IWidget,
    LogQueryVisualizationType,
    LogQueryWidget,
    TextWidget,
    YAxisProps,
)
from constructs import Construct

from tidewheel.cdk.alarms import THROTTLED, UNSCHEDULED
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.metric_sources import PERIOD, Watched
from tidewheel.telemetry import metrics

COLUMNS = 24
"""Width of every dashboard."""
PROMISE_MS = 1100
"""The most that a message should be late: SQS's whole second, and the tolerance for two clocks."""

_LATE = """# Is anything late?
**Lateness** is what was delivered: up to {promise} ms is as promised. **Oldest due** is what was not delivered: nothing
shown is nothing late. If both are quiet, all is well; stop here. Otherwise look where the flow below breaks off, from
left to right, then at the causes. What each alarm means, and what to do: {runbook}."""
_FLOW = """## Where does it break off?
Messages go from left to right. Accepted, but no ledgers and nothing delivered: ingest. Ledgers, but nothing planned
when they are due: dispatch. Planned, but not delivered: deliver, or the subscription's queue."""
_CAUSES = """## Why?
Old messages in a queue: the function behind it fails, is throttled or is switched off. Duration near the time-out: too
much memory or work for one call. Throttled requests of the table: one hot topic."""
_CONSUMERS = """## Do consumers keep up?
Declared subscriptions. An old message: nobody reads the queue, or too slowly; SQS may count one that waits for its
time from its sending. Dead letters: a consumer received them again and again without deleting them."""
_COST = """## What does it cost?
Requests to AWS, units of the table and time of the functions are the bill. Which requests: the field `requests` of each
record with metrics in the functions' logs."""


class Dashboard(Construct):
    """The CloudWatch dashboard, named like the service."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        watched: Watched,
        environment: Environment,
        alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> None:
        """Creates the dashboard.

        Args:
            scope: The service.
            id_: The dashboard's name in the scope.
            watched: The parts of the service to show.
            environment: Has the thresholds.
            alarms: The alarms whose state is shown.
        """
        super().__init__(scope, id_)
        self._watched = watched
        self._environment = environment
        self._consumers: tuple[GraphWidget, GraphWidget] | None = None
        runbook = environment.runbook_url
        shown = f"[{runbook}]({runbook})" if "://" in runbook else f"`{runbook}`"
        text = _LATE.format(promise=PROMISE_MS, runbook=shown)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=watched.service_name,
            default_interval=Duration.hours(12),
            widgets=[
                [_text(text, height=3)],
                self._late(alarms),
                [_text(_FLOW)],
                self._flow(),
                [_text(_CAUSES)],
                self._causes(),
                self._limits(),
                [_text(_COST)],
                self._cost(),
            ],
        )

    def show_subscription(self, path: str, queue: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
        """Shows a declared subscription in the last row, which the first call adds.

        Args:
            path: The topic's and the subscription's name.
            queue: The queue that its consumer reads.
            dead_letters: The queue's dead-letter queue.
        """
        if self._consumers is None:
            self._consumers = (
                _graph("Oldest message of each subscription (s)", width=12),
                _graph("Dead letters of each subscription", width=12),
            )
            self.dashboard.add_widgets(_text(_CONSUMERS))
            self.dashboard.add_widgets(*self._consumers)
        ages, given_up = self._consumers
        ages.add_left_metric(
            queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=PERIOD, label=path)
        )
        given_up.add_left_metric(
            dead_letters.metric_approximate_number_of_messages_visible(statistic="Maximum", period=PERIOD, label=path)
        )

    def _late(self, alarms: Sequence[cloudwatch.IAlarm]) -> list[IWidget]:
        width = 8 if alarms else 12
        widgets: list[IWidget] = [
            self._logged(metrics.LATENESS.graph, width=width),
            self._own(
                metrics.OLDEST_DUE_AGE.graph, width=width, limits={"alarm": self._environment.oldest_due_alarm_s}
            ),
        ]
        if alarms:
            widgets.append(
                cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=width, height=_HEIGHT)
            )
        return widgets

    def _flow(self) -> list[IWidget]:
        return [self._logged("Messages", width=COLUMNS)]

    def _causes(self) -> list[IWidget]:
        watched = self._watched
        ages = [
            queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=PERIOD, label=name)
            for name, queue in watched.sources.items()
        ]
        given_up = [
            queue.metric_approximate_number_of_messages_visible(statistic="Maximum", period=PERIOD, label=label)
            for label, queue in zip([*watched.sources, "invocations"], watched.dead_letters, strict=True)
        ]
        refused = watched.refused.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=PERIOD, label="refused"
        )
        return [
            _graph(
                "Oldest message in each queue (s)",
                *ages,
                width=6,
                limits={"alarm": self._environment.queue_age_alarm_s},
            ),
            self._logged("Unfinished work", width=6),
            self._own(
                "Errors of functions", *(watched.of_function(name, "Errors") for name in watched.functions), width=6
            ),
            _graph("Dead letters and refused messages", *given_up, refused, width=6),
        ]

    def _limits(self) -> list[IWidget]:
        watched = self._watched
        durations = [
            cloudwatch.MathExpression(
                expression=f"100 * {name} / {timeout.to_milliseconds()}",
                using_metrics={name: watched.of_function(name, "Duration", "Maximum")},
                period=PERIOD,
                label=name,
            )
            for name, function in watched.functions.items()
            if (timeout := function.timeout) is not None
        ]
        return [
            _graph("Longest call, % of its time-out", *durations, width=6, limits={"time-out": 100}),
            _graph("Throttled calls", *(watched.of_function(name, "Throttles") for name in watched.functions), width=6),
            _graph(
                "Throttled requests of the table",
                *(watched.of_table(name) for name in THROTTLED),
                *(watched.of_check_index(name) for name in THROTTLED),
                width=6,
            ),
            _graph(
                "Schedules",
                *(watched.of_scheduler(name) for name in ("InvocationAttemptCount", *UNSCHEDULED)),
                width=6,
            ),
        ]

    def _cost(self) -> list[IWidget]:
        watched = self._watched
        return [
            self._logged("Requests to AWS", width=6),
            _graph(
                "Units of the table",
                watched.table.metric_consumed_write_capacity_units(period=PERIOD, label="write"),
                watched.table.metric_consumed_read_capacity_units(period=PERIOD, label="read"),
                width=6,
            ),
            _graph(
                "Time of functions (ms)",
                *(watched.of_function(name, "Duration") for name in watched.functions),
                width=6,
                stacked=True,
            ),
            self._logged(metrics.BACKLOG.graph, width=6),
        ]

    def _own(self, title: str, *before: IMetric, width: int, limits: dict[str, float] | None = None) -> GraphWidget:
        """Returns the graph of the service's own metrics that are declared for a title, behind the given metrics."""
        own = (self._watched.own(metric) for metric in metrics.METRICS if metric.graph == title)
        return _graph(title, *before, *own, width=width, limits=limits)

    def _logged(self, title: str, *, width: int) -> LogQueryWidget:
        """Returns the graph of the fields of the functions' log records that are declared for a title."""
        fields = [
            f"{'max' if metric.gauge else 'sum'}({metric.name}) as {metric.name}_"
            for metric in metrics.METRICS
            if metric.graph == title
        ]
        return LogQueryWidget(
            title=title,
            log_group_names=[each.log_group.log_group_name for each in self._watched.functions.values()],
            query_lines=["filter ispresent(requests)", f"stats {', '.join(fields)} by bin(5m)"],
            view=LogQueryVisualizationType.LINE,
            width=width,
            height=_HEIGHT,
        )


_HEIGHT = 6


def _text(markdown: str, *, height: int = 2) -> TextWidget:
    return TextWidget(markdown=markdown, width=COLUMNS, height=height)


def _graph(
    title: str, *shown: IMetric, width: int, limits: dict[str, float] | None = None, stacked: bool = False
) -> GraphWidget:
    """Returns a graph that begins at zero, with a line for each limit."""
    return GraphWidget(
        title=title,
        left=list(shown),
        width=width,
        height=_HEIGHT,
        stacked=stacked,
        left_y_axis=YAxisProps(min=0, show_units=False),
        left_annotations=[HorizontalAnnotation(value=value, label=label) for label, value in (limits or {}).items()],
    )
