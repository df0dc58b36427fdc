"""Moves due messages on with EventBridge Pipes: to a FIFO queue, and to a partner's HTTPS endpoint."""

from tidewheel.cdk import Environment, TidewheelService, Topic

# isort: split
from aws_cdk import App, SecretValue, Stack
from aws_cdk import aws_events as events
from constructs import Construct


# region pipes
def move_on(stack: Stack, parcels: Topic) -> None:
    """Pack one parcel of a customer at a time, and call a partner for each refund."""
    parcels.add_subscription("packing", carry="id").pipe_to()

    key = events.Authorization.api_key("X-Api-Key", SecretValue.secrets_manager("partner"))
    partner = events.ApiDestination(
        stack,
        "Partner",
        connection=events.Connection(stack, "Connection", authorization=key),
        endpoint="https://partner.example.com/refunds",
    )
    refunds = parcels.add_subscription("refunds", carry="id", filter_policy={"kind": ["refund"]})
    refunds.pipe_to(api_destination=partner, id_header="Idempotency-Key", input_template="<$.body>")


# endregion
class ShippingStack(Stack):
    """A service with a topic, and two pipes."""

    def __init__(self, scope: Construct, id_: str) -> None:
        """Make the service, the topic and the pipes."""
        super().__init__(scope, id_)
        service = TidewheelService(self, "Shipping", service_name="shipping", environment=Environment.production())
        move_on(self, service.add_topic("parcels"))


if __name__ == "__main__":
    app = App()
    ShippingStack(app, "shipping")
    app.synth()
