"""The service: every capability once, and the settings by which its parts and the SDK find each other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Unpack

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
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
from tidewheel.cdk.grants import grant_administer, grant_consume, grant_send
from tidewheel.cdk.ingestion import Ingestion
from tidewheel.cdk.metric_sources import Watched
from tidewheel.cdk.names import set_service_name
from tidewheel.cdk.storage import Storage
from tidewheel.cdk.timing_wheel import TimingWheel
from tidewheel.cdk.topics import Subscription, Topic
from tidewheel.client.policies import RECEIVE, SENDER_ACTIONS, ConsumerAction, SenderAction
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import VARIABLE_PREFIX, TuningSettings, parameter_name, roles_parameter_name


class TidewheelService(Construct):
    """One deployment of Tidewheel, in a stack of its own or beside other things.

    It needs no VPC: its functions reach AWS by the public endpoints, over TLS, and nothing listens.

    Attributes:
        service_name: What the SDK calls the stack: `Tidewheel(service_name)`. Everything that has an explicit name has
            it from this one. The template says `AWS::StackName` where no name is given, so it fits any stack; the
            template of another stack of the app says the stack's name.
        environment: As given.
        settings: Where the service's parts are, by the names that the SDK and the functions read.
        parameter: The SSM parameter with the settings.
        alarms: The topic that failures are told to, and the alarms.
        dashboard: The dashboard; None if the environment has none.
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
        """Compose the capabilities and give every function the settings.

        Args:
            scope: The stack, or a construct in it.
            id_: Its name there.
            environment: What it costs, keeps and can do; `Environment.production()` by default.
            service_name: As a stack's: letters, digits and '-', a letter first, at most 48. By default the stack's
                name; a stack with two services, or a nested one, needs it. To change it makes another service, without
                the topics.
            encryption_key: A KMS key that encrypts all that the service stores. A key of the same app gets the policy
                that it needs; an imported one must have it (`tidewheel.cdk.encryption`). By default the environment's,
                if any.
            alarm_topic: Where alarms go; by default a topic is made for them. An imported one must let
                `cloudwatch.amazonaws.com` and `events.amazonaws.com` publish.

        Raises:
            InvalidValue: A value is not usable.
        """
        super().__init__(scope, id_)
        self.environment = environment = _environment(environment)
        _check_constructs(environment, encryption_key, alarm_topic)
        self.service_name = set_service_name(self, service_name)
        # Before everything that it encrypts.
        self.encryption = Encryption(self, environment=environment, key=encryption_key)
        self._code = code = service_code()
        self.storage = Storage(self, "Storage", environment=environment)
        self.delivery = Delivery(self, "Delivery", environment=environment, code=code, storage=self.storage)
        self.timing_wheel = TimingWheel(
            self,
            "TimingWheel",
            environment=environment,
            code=code,
            storage=self.storage,
            delivery=self.delivery,
        )
        self.ingestion = Ingestion(
            self,
            "Ingestion",
            environment=environment,
            code=code,
            storage=self.storage,
            timing_wheel=self.timing_wheel,
            delivery=self.delivery,
        )
        self.compaction = Compaction(
            self,
            "Compaction",
            environment=environment,
            code=code,
            storage=self.storage,
            dead_letters=self.timing_wheel.dead_letters,
        )
        self.compaction.grant_start(self.timing_wheel.sweep)
        if self.compaction.jobs is not None:
            self.timing_wheel.grant_arm(self.compaction.job_role(self.compaction.jobs.import_))
        self.backlog = Backlog(self, "Backlog", storage=self.storage)
        self.settings = self._settings(environment)
        self._publish(self.settings)
        for function in (
            self.ingestion.ingest,
            self.timing_wheel.dispatch,
            self.delivery.deliver,
            self.timing_wheel.sweep,
            self.compaction.compact,
        ):
            self.configure(function)
        self.alarms = Alarms(self, "Alarms", topic=alarm_topic)
        self.alarms.watch(watched := self._watched(), environment)
        self.dashboard: Dashboard | None = None
        if environment.dashboard:
            self.dashboard = Dashboard(self, "Dashboard", watched, environment, self.alarms.alarms)

    def _watched(self) -> Watched:
        """Return what alarms and the dashboard look at."""
        sources = {"urgent": self.ingestion.urgent_queue, "bulk": self.ingestion.bulk_queue}
        sources["work"] = self.delivery.work_queue
        for topic, (urgent, bulk) in self.ingestion.topic_queues.items():
            sources |= {f"{topic}.urgent": urgent, f"{topic}.bulk": bulk}
        given_up = [queue.dead_letter_queue.queue for queue in sources.values() if queue.dead_letter_queue]
        return Watched(
            service_name=self.service_name,
            functions={
                "ingest": self.ingestion.ingest,
                "dispatch": self.timing_wheel.dispatch,
                "deliver": self.delivery.deliver,
                "sweep": self.timing_wheel.sweep,
                "compact": self.compaction.compact,
            },
            sources=sources,
            dead_letters=(*given_up, self.timing_wheel.dead_letters),
            refused=self.delivery.refused_queue,
            table=self.storage.table,
            jobs=tuple(self.compaction.jobs or ()),
            schedule_group=self.timing_wheel.group_name,
        )

    def add_topic(
        self,
        topic_name: str,
        *,
        slot: Duration | None = None,
        lookahead: Duration | None = None,
        retention: Duration | None = None,
        removal_policy: RemovalPolicy | None = None,
        **settings: Unpack[TuningSettings],
    ) -> Topic:
        """Declare a topic, which the deployment creates; see `Topic` for the arguments.

        Raises:
            InvalidValue: A value is not usable.
        """
        return Topic(
            self,
            f"Topic-{topic_name}",
            service=self,
            topic_name=topic_name,
            slot=slot,
            lookahead=lookahead,
            retention=retention,
            removal_policy=removal_policy,
            **settings,
        )

    def grant_send(
        self,
        grantee: iam.IGrantable,
        *topics: str | Topic,
        actions: Collection[SenderAction] = SENDER_ACTIONS,
    ) -> iam.Grant:
        """Allow to send to topics: what `tidewheel policy sender` prints.

        A topic that is not in `dedicated_topics` of the environment shares its queues: who may send to it may send to
        all such topics. The synthesis says so.

        Args:
            grantee: Such as a function.
            *topics: Names, or declared topics.
            actions: What for; by default all.

        Raises:
            InvalidValue: A topic is no name, there is none, or an action is unknown.
        """
        return grant_send(self, grantee, topics, actions)

    def grant_consume(
        self,
        grantee: iam.IGrantable,
        *subscriptions: Subscription,
        actions: Collection[ConsumerAction] = RECEIVE,
    ) -> iam.Grant:
        """Allow to work on declared subscriptions: what `tidewheel policy consumer` prints.

        A function with an event source on the queue can read the queue already. It needs this for bodies that are too
        large for SQS, and for "retry_later" and "redrive".

        Args:
            grantee: Such as a function.
            *subscriptions: Declared ones.
            actions: What for; by default to receive.

        Raises:
            InvalidValue: There is no subscription, or an action is unknown.
        """
        return grant_consume(self, grantee, subscriptions, actions)

    def grant_administer(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to create, change and delete topics and subscriptions: what `tidewheel policy administrator` prints."""
        return grant_administer(self, grantee)

    def declarations(self) -> Declarations:
        """Return what creates declared topics and subscriptions; made when it is asked for first."""
        found = self.node.try_find_child(DECLARATIONS)
        return found if isinstance(found, Declarations) else Declarations(self, code=self._code)

    def configure(self, function: lambda_.Function) -> None:
        """Give a function of the service the settings."""
        for name, value in self.settings.items():
            function.add_environment(f"{VARIABLE_PREFIX}{name.upper()}", value)

    def _settings(self, environment: Environment) -> dict[str, str]:
        """Return the settings by name, as `tidewheel.model.settings.ServiceSettings` reads them."""
        key, merge_job = self.encryption.key, self.compaction.merge_job_name
        return {
            **({} if key is None else {"encryption_key_arn": key.key_arn}),
            **({} if merge_job is None else {"merge_job": merge_job}),
            "stack": self.service_name,
            "table": self.storage.table.table_name,
            "s3_bucket": self.storage.s3_bucket.bucket_name,
            "urgent_queue_url": self.ingestion.urgent_queue.queue_url,
            "bulk_queue_url": self.ingestion.bulk_queue.queue_url,
            "work_queue_url": self.delivery.work_queue.queue_url,
            "refused_queue_url": self.delivery.refused_queue.queue_url,
            "schedule_group": self.timing_wheel.group_name,
            "schedule_role_arn": self.timing_wheel.role.role_arn,
            "dispatch_arn": self.timing_wheel.dispatch_arn,
            "schedule_dead_letter_arn": self.timing_wheel.dead_letters.queue_arn,
            "compact_function": self.compaction.function_name,
            "max_skew_ms": str(environment.max_skew_ms),
            "send_threads": str(environment.send_threads),
            "topic_queues": self._topic_queues(),
        }

    def _topic_queues(self) -> str:
        """Return the URLs of the topics' own ingest queues as JSON."""
        found = self.ingestion.topic_queues
        return Stack.of(self).to_json_string(
            {topic: [queue.queue_url for queue in queues] for topic, queues in found.items()}
        )

    def _publish(self, settings: dict[str, str]) -> None:
        """Write the parameter with the settings, which the SDK reads, and that with the roles that deliver."""
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
    """Raise InvalidValue for what is no construct: an ARN is what people have at hand."""
    if isinstance(key, str):
        raise InvalidValue("encryption_key", key, 'import it: kms.Key.from_key_arn(self, "Key", arn)')
    if isinstance(topic, str):
        raise InvalidValue("alarm_topic", topic, 'import it: sns.Topic.from_topic_arn(self, "Alarms", arn)')
    if key is not None and (environment.own_key or environment.encryption_key_arn is not None):
        advice = "encryption_key is given as well: leave one of the two out"
        raise InvalidValue("environment", environment.name, f"it names a key or has one made, and {advice}")
