"""Composes the service of its parts, and publishes the settings for the parts and the SDK."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from typing import Unpack

from aws_cdk import Annotations, ArnFormat, Aws, Stack, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from tidewheel.cdk.alarms import Alarms
from tidewheel.cdk.backlog import Backlog
from tidewheel.cdk.bundling import service_code
from tidewheel.cdk.compaction import Compaction
from tidewheel.cdk.dashboard import Dashboard
from tidewheel.cdk.declarations import ID as DECLARATIONS
from tidewheel.cdk.declarations import Declarations
from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.encryption import Encryption
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import Foundation
from tidewheel.cdk.ingestion import Ingestion
from tidewheel.cdk.metric_sources import Watched
from tidewheel.cdk.names import set_service_name
from tidewheel.cdk.storage import Storage
from tidewheel.cdk.timing_wheel import TimingWheel
from tidewheel.cdk.topics import Subscription, Topic, TopicProperties
from tidewheel.errors import InvalidValue
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import (
    STACK_TAG,
    VARIABLE_PREFIX,
    FunctionSettings,
    ServiceSettings,
    parameter_name,
    roles_parameter_name,
)
from tidewheel.policies import (
    RECEIVE,
    SENDER_ACTIONS,
    ConsumerAction,
    Place,
    SenderAction,
    Statement,
    administrator_statements,
    consumer_statements,
    sender_statements,
    shares_queues,
    viewer_statements,
)

_PLACE = Place(partition=Aws.PARTITION, region=Aws.REGION, account=Aws.ACCOUNT_ID, dns_suffix=Aws.URL_SUFFIX)
"""The stack's place, for the functions of `tidewheel.policies`."""


class TidewheelService(Construct):
    """A deployment of Tidewheel, in its own stack or in a stack with other resources.

    The service needs no VPC: its functions reach AWS by the public endpoints, over TLS, and no part listens.

    Attributes:
        service_name: The stack's name for the SDK, `Tidewheel(service_name)`, and the start of all explicit names of
            resources. If no name is given, the template says `AWS::StackName`, so it fits any stack; the templates of
            the app's other stacks contain the stack's actual name.
        environment: The given environment.
        settings: The locations of the service's parts, by the names that the SDK and the functions read.
        parameter: The SSM parameter with the settings.
        alarms: The SNS topic for failures, and the alarms.
        dashboard: The dashboard; None if the environment has no dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        environment: Environment | None = None,
        service_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        alarm_topic: sns.ITopic | None = None,
    ) -> None:
        """Creates all parts of the service, and gives every function the settings.

        Args:
            scope: The stack, or a construct in it.
            id_: The service's name in the scope.
            environment: The settings of the deployment; `Environment.production()` by default.
            service_name: Like a stack's name: letters, digits and '-', a letter first, at most 48 characters. By
                default the stack's name. A stack with two services, or a nested stack, needs this argument. A changed
                name makes another service, without the topics.
            encryption_key: A KMS key that encrypts all data that the service stores. A key of the same app gets the
                required policy; an imported key must already have the policy (`tidewheel.cdk.encryption`). By default
                the environment's key, if any.
            alarm_topic: The SNS topic for alarms; by default a new topic. An imported topic must let
                `cloudwatch.amazonaws.com` and `events.amazonaws.com` publish.

        Raises:
            InvalidValue: A value is not usable.
        """
        super().__init__(scope, id_)
        self.environment = environment = _environment(environment)
        _check_constructs(environment, encryption_key, alarm_topic)
        self.service_name = set_service_name(self, service_name)
        # Created before all resources that it encrypts.
        self.encryption = Encryption(self, environment=environment, key=encryption_key)
        code = service_code()
        self.storage = Storage(self, "Storage", environment=environment)
        self._foundation = foundation = Foundation(environment=environment, code=code, storage=self.storage)
        self.delivery = Delivery(self, "Delivery", foundation)
        self.timing_wheel = TimingWheel(self, "TimingWheel", foundation, self.delivery)
        self.ingestion = Ingestion(self, "Ingestion", foundation, self.timing_wheel, self.delivery)
        self.compaction = Compaction(self, "Compaction", foundation, dead_letters=self.timing_wheel.dead_letters)
        self.compaction.grant_start(self.timing_wheel.sweep)
        if self.compaction.jobs is not None:
            self.timing_wheel.grant_schedule(self.compaction.jobs.import_.role)
            # Rows of an import whose slots were sealed meanwhile.
            self.ingestion.grant_urgent_sends(self.compaction.jobs.import_.role)
        self.backlog = Backlog(self, "Backlog", storage=self.storage)
        self.settings = self._settings(environment)
        self._publish(self.settings)
        Tags.of(self).add(STACK_TAG, self.service_name)
        functions = {
            "ingest": self.ingestion.ingest,
            "dispatch": self.timing_wheel.dispatch,
            "deliver": self.delivery.deliver,
            "sweep": self.timing_wheel.sweep,
            "compact": self.compaction.compact,
        }
        for function in functions.values():
            self.configure(function)
        self.alarms = Alarms(self, "Alarms", topic=alarm_topic)
        self.alarms.watch(watched := self._watched(functions), environment)
        self.dashboard: Dashboard | None = None
        if environment.dashboard:
            self.dashboard = Dashboard(self, "Dashboard", watched, environment, self.alarms.alarms)

    def _watched(self, functions: Mapping[str, lambda_.Function]) -> Watched:
        """Returns the parts that alarms and the dashboard monitor."""
        sources = {"urgent": self.ingestion.urgent_queue, "bulk": self.ingestion.bulk_queue}
        sources["work"] = self.delivery.work_queue
        for topic, (urgent, bulk) in self.ingestion.topic_queues.items():
            sources |= {f"{topic}.urgent": urgent, f"{topic}.bulk": bulk}
        given_up = [queue.dead_letter_queue.queue for queue in sources.values() if queue.dead_letter_queue]
        return Watched(
            service_name=self.service_name,
            functions=functions,
            sources=sources,
            dead_letters=(*given_up, self.timing_wheel.dead_letters),
            refused=self.delivery.refused_queue,
            table=self.storage.table,
            jobs=tuple(self.compaction.jobs or ()),
            schedule_group=self.timing_wheel.group_name,
        )

    def add_topic(self, topic_name: str, **properties: Unpack[TopicProperties]) -> Topic:
        """Declares a topic, which the deployment creates. See `Topic` for the arguments.

        Raises:
            InvalidValue: A value is not usable.
        """
        return Topic(self, f"Topic-{topic_name}", service=self, topic_name=topic_name, **properties)

    def address(self, topic_name: str | None = None) -> sqs.Queue:
        """Returns the queue to which programs send without the SDK: the topic's own, or the shared queue.

        An SNS subscription of the queue needs raw delivery.
        """
        own = self.ingestion.topic_queues.get(topic_name or "")
        return self.ingestion.urgent_queue if own is None else own[0]

    def grant_send(
        self, grantee: iam.IGrantable, *topics: str | Topic, actions: Collection[SenderAction] = SENDER_ACTIONS
    ) -> iam.Grant:
        """Allows to send to topics, with the policy of `tidewheel policy sender`.

        Topics that are not in `dedicated_topics` of the environment share their queues: permission to send to such a
        topic is permission to send to all such topics. The synthesis warns about this.

        Args:
            grantee: Such as a function.
            *topics: Names, or declared topics.
            actions: The allowed actions; by default all.

        Raises:
            InvalidValue: A topic's name is not valid, no topic is given, or an action is unknown.
        """
        names = [topic if isinstance(topic, str) else topic.topic_name for topic in topics]
        if not names:
            raise InvalidValue("topics", names, "name at least one topic")
        settings = self._policy_settings()
        statements = [each for name in names for each in sender_statements(settings, name, actions=actions, **_PLACE)]
        for name in names:
            if shares_queues(settings, name):
                Annotations.of(self).add_info(
                    f"Topic {name!r} has no ingest queues of its own: who may send to it may send to every topic that "
                    "has none. To give it its own, list it in dedicated_topics of the environment."
                )
        return _grant(grantee, statements)

    def grant_consume(
        self, grantee: iam.IGrantable, *subscriptions: Subscription, actions: Collection[ConsumerAction] = RECEIVE
    ) -> iam.Grant:
        """Allows to work on declared subscriptions, with the policy of `tidewheel policy consumer`.

        A function with an event source on the queue can already read the queue. The function needs this grant for
        bodies that are too large for SQS, and for "retry_later" and "redrive".

        Args:
            grantee: Such as a function.
            *subscriptions: Declared subscriptions.
            actions: The allowed actions; by default to receive.

        Raises:
            InvalidValue: No subscription is given, or an action is unknown.
        """
        if not subscriptions:
            raise InvalidValue("subscriptions", subscriptions, "give at least one declared subscription")
        statements, own_key = [], self.encryption.key
        for each in subscriptions:
            statements += consumer_statements(
                self._policy_settings(),
                each.topic.topic_name,
                queue_arn(each.queue),
                subscription=each.subscription_name,
                dead_letter_queue=None if each.dead_letters is None else queue_arn(each.dead_letters),
                actions=actions,
                **_PLACE,
            )
            key = each.queue.encryption_master_key
            if key is not None and (own_key is None or key.key_arn != own_key.key_arn):
                key.grant_decrypt(grantee)
        return _grant(grantee, statements)

    def grant_view(self, grantee: iam.IGrantable, *queues: sqs.IQueue) -> iam.Grant:
        """Allows to look at all topics, and to change nothing.

        The policy is the policy of `tidewheel policy viewer`.

        Args:
            grantee: Such as a person's role.
            *queues: Queues that are not in the service's construct, and their dead-letter queues, to see their depths.
        """
        own = [queue_arn(queue) for queue in queues]
        return _grant(grantee, viewer_statements(self._policy_settings(), queues=own, **_PLACE))

    def grant_administer(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows to create, change and delete topics and subscriptions.

        The policy is the policy of `tidewheel policy administrator`.
        """
        read = [*self.ingestion.queues, self.delivery.work_queue]
        dead = [queue_arn(each.dead_letter_queue.queue) for each in read if each.dead_letter_queue is not None]
        statements = administrator_statements(self._policy_settings(), dead_letter_queues=dead, **_PLACE)
        return _grant(grantee, statements)

    def declarations(self) -> Declarations:
        """Returns the construct that creates declared topics and subscriptions, made at the first call."""
        found = self.node.try_find_child(DECLARATIONS)
        return found if isinstance(found, Declarations) else Declarations(self, self._foundation)

    def configure(self, function: lambda_.Function) -> None:
        """Gives a function of the service the settings."""
        for name, value in self.settings.items():
            function.add_environment(f"{VARIABLE_PREFIX}{name.upper()}", value)

    def _settings(self, environment: Environment) -> dict[str, str]:
        """Returns the settings by name, for `tidewheel.model.settings.ServiceSettings`."""
        key, merge_job = self.encryption.key, self.compaction.merge_job_name
        own = self.ingestion.topic_queues.items()
        topic_queues = {topic: [queue.queue_url for queue in queues] for topic, queues in own}
        return {
            **({} if key is None else {"encryption_key_arn": key.key_arn}),
            **({} if merge_job is None else {"merge_job": merge_job}),
            "stack": self.service_name,
            "table": self.storage.table.table_name,
            "s3_bucket": self.storage.s3_bucket.bucket_name,
            **{name: queue.queue_url for name, queue in self._own_queues().items()},
            "schedule_group": self.timing_wheel.group_name,
            "schedule_role_arn": self.timing_wheel.role.role_arn,
            "dispatch_arn": self.timing_wheel.dispatch_arn,
            "schedule_dead_letter_arn": self.timing_wheel.dead_letters.queue_arn,
            "compact_function": self.compaction.function_name,
            **{name: str(getattr(environment, name)) for name in settings_of(FunctionSettings)},
            "topic_queues": Stack.of(self).to_json_string(topic_queues),
        }

    def _own_queues(self) -> dict[str, sqs.Queue]:
        """Returns the queues that all topics share, by the names of the settings."""
        return {
            "urgent_queue_url": self.ingestion.urgent_queue,
            "bulk_queue_url": self.ingestion.bulk_queue,
            "work_queue_url": self.delivery.work_queue,
            "refused_queue_url": self.delivery.refused_queue,
        }

    def _policy_settings(self) -> ServiceSettings:
        """Returns the settings for policies, with queues' ARNs instead of URLs."""
        topic_queues = self.ingestion.topic_queues
        values = {
            **self.settings,
            **{name: queue_arn(queue) for name, queue in self._own_queues().items()},
            "topic_queues": {topic: [queue_arn(queue) for queue in queues] for topic, queues in topic_queues.items()},
        }
        return ServiceSettings.from_mapping(values, "the construct of the service")

    def _publish(self, settings: dict[str, str]) -> None:
        """Creates the parameters with the settings, for the SDK, and with the roles that deliver."""
        self.parameter = ssm.StringParameter(
            self,
            "Settings",
            parameter_name=parameter_name(self.service_name),
            simple_name=False,
            string_value=Stack.of(self).to_json_string(settings),
            description="Where the parts of this Tidewheel service are; read by its SDK",
        )
        ssm.StringListParameter(
            self,
            "DeliveryRoles",
            parameter_name=roles_parameter_name(self.service_name),
            simple_name=False,
            string_list_value=[role.role_arn for role in self.delivery.roles],
            description="The roles that send to the queues of subscriptions; named by the policies of such queues",
        )


def _environment(given: object) -> Environment:
    if given is None:
        return Environment.production()
    if not isinstance(given, Environment):
        advice = "give Environment.production(), Environment.development(), or one of these with other values"
        raise InvalidValue("environment", given, advice)
    return given


def _check_constructs(environment: Environment, key: object, topic: object) -> None:
    """Raises InvalidValue for values that are not constructs, such as an ARN."""
    if isinstance(key, str):
        raise InvalidValue("encryption_key", key, 'import it: kms.Key.from_key_arn(self, "Key", arn)')
    if isinstance(topic, str):
        raise InvalidValue("alarm_topic", topic, 'import it: sns.Topic.from_topic_arn(self, "Alarms", arn)')
    if key is not None and (environment.own_key or environment.encryption_key_arn is not None):
        advice = "encryption_key is given as well: leave one of the two out"
        raise InvalidValue("environment", environment.name, f"it names a key or has one made, and {advice}")


def queue_arn(queue: sqs.IQueue) -> str:
    """Returns a queue's ARN as text that begins with `arn:`. CDK's `queue_arn` is a single reference.

    The ARN of an imported queue keeps its own Region and account.
    """
    return Stack.of(queue).format_arn(
        service="sqs",
        region=queue.env.region,
        account=queue.env.account,
        resource=queue.queue_name,
        arn_format=ArnFormat.NO_RESOURCE_NAME,
    )


def _grant(grantee: iam.IGrantable, statements: Iterable[Statement]) -> iam.Grant:
    given = [
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=statement["Action"],
            resource_arns=statement["Resource"],
            conditions=statement.get("Condition"),
        )
        for statement in statements
    ]
    return reduce(lambda one, other: one.combine(other), given)
