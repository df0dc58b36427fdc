"""How a team tests its stack, without making the archives that only a deployment needs."""

# region test
from aws_cdk import App
from aws_cdk.assertions import Template

from app import ShopStack


def test_the_stack_has_the_service_and_both_functions() -> None:
    """An empty list of bundling stacks fetches no package: seconds instead of half a minute."""
    app = App(context={"aws:cdk:bundling-stacks": []})
    template = Template.from_stack(ShopStack(app, "shop"))
    template.has_resource_properties("AWS::Lambda::Function", {"FunctionName": "shop-reminders-dispatch"})
    template.resource_properties_count_is("AWS::Lambda::Function", {"Handler": "handler.handler"}, 2)


# endregion
