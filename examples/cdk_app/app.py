"""A team's own CDK app: its functions, and a Tidewheel service beside them in one stack.

`cdk deploy --app "python app.py"` in this folder deploys it. It needs `pip install 'tidewheel[cdk]'`, and Node.
"""

# region stack
from pathlib import Path

# Before aws_cdk, to report a missing Node.
from tidewheel.cdk import Environment, SdkLayer, TidewheelService

# isort: split
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from constructs import Construct

HERE = Path(__file__).parent


class ShopStack(Stack):
    """Reminders of unpaid orders."""

    def __init__(self, scope: Construct, id_: str) -> None:
        """Make the service, a topic with two subscriptions, a sender and a consumer."""
        super().__init__(scope, id_)
        service = TidewheelService(
            self,
            "Reminders",
            service_name="shop-reminders",
            environment=Environment.production(dedicated_topics=("orders",)),
            encryption_key=kms.Key(self, "Key", enable_key_rotation=True),
            alarm_topic=sns.Topic(self, "OnCall"),
        )
        orders = service.add_topic("orders", retention=Duration.days(30), max_waiting=5_000_000)
        billing = orders.add_subscription("billing", reader="tidewheel", visibility_timeout=Duration.minutes(3))
        orders.add_subscription("mail", reader="tidewheel", filter_policy={"kind": ["reminder"]})

        layer = SdkLayer(self, "Tidewheel")
        sender = self._function("sender", layer)
        orders.grant_send(sender, actions=("send", "cancel"))
        sender.node.add_dependency(orders)

        consumer = self._function("consumer", layer)
        consumer.add_event_source(SqsEventSource(billing.queue, report_batch_item_failures=True))
        billing.grant_consume(consumer)
        for function in (sender, consumer):
            function.add_environment("TIDEWHEEL_SERVICE", service.service_name)

    def _function(self, name: str, layer: lambda_.ILayerVersion) -> lambda_.Function:
        return lambda_.Function(
            self,
            name.capitalize(),
            code=lambda_.Code.from_asset(str(HERE / name)),
            handler="handler.handler",
            layers=[layer],
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            memory_size=256,
            timeout=Duration.seconds(30),
        )


if __name__ == "__main__":
    app = App()
    ShopStack(app, "shop")
    app.synth()

# endregion
