"""The SDK layer supports one architecture. Synthesis refuses functions of the other."""

from __future__ import annotations

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

from infra.application import BUNDLING_STACKS
from tidewheel.cdk import SdkLayer
from tidewheel.errors import InvalidValue

ARM, X86 = lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64


@pytest.fixture
def app() -> App:
    """Returns an app without bundling."""
    return App(analytics_reporting=False, context={BUNDLING_STACKS: []})


def function(
    stack: Stack,
    layer: lambda_.ILayerVersion | None,
    architecture: lambda_.Architecture | None,
    runtime: lambda_.Runtime = lambda_.Runtime.PYTHON_3_13,
) -> lambda_.Function:
    """A function with the layer."""
    return lambda_.Function(
        stack,
        "Sender",
        code=lambda_.Code.from_inline("def handler(event, context): pass"),
        handler="index.handler",
        runtime=runtime,
        architecture=architecture,
        layers=[] if layer is None else [layer],
    )


@pytest.mark.parametrize(
    ("layers", "functions"), [(ARM, X86), (ARM, None), (X86, ARM)], ids=["x86-64", "the CDK's default", "arm64"]
)
def test_a_function_of_another_architecture_is_named(
    app: App, layers: lambda_.Architecture, functions: lambda_.Architecture | None
) -> None:
    stack = Stack(app, "shop")
    function(stack, SdkLayer(stack, "Tidewheel", architecture=layers), functions)
    told = f"shop/Sender/Resource has the architecture .*shop/Tidewheel is for {layers.name}: give SdkLayer"
    with pytest.raises(RuntimeError, match=told):
        app.synth()


def test_a_function_in_another_stack_is_named(app: App) -> None:
    layer = SdkLayer(Stack(app, "layers"), "Tidewheel")
    function(Stack(app, "shop"), layer, X86)
    with pytest.raises(RuntimeError, match="shop/Sender/Resource has the architecture x86_64"):
        app.synth()


@pytest.mark.parametrize("architecture", [ARM, X86])
def test_a_layer_and_functions_of_one_architecture_fit(app: App, architecture: lambda_.Architecture) -> None:
    home, other = Stack(app, "layers"), Stack(app, "shop")
    layer = SdkLayer(home, "Tidewheel", architecture=architecture)
    for stack in (home, other):
        function(stack, layer, architecture)
    [made] = of_type(app, "layers", "AWS::Lambda::LayerVersion")
    assert made["CompatibleArchitectures"] == [architecture.name]
    assert made["CompatibleRuntimes"] == ["python3.13"]


def test_each_stack_may_have_a_layer_of_its_own_of_the_same_name(app: App) -> None:
    for name, architecture in (("first", ARM), ("second", X86)):
        stack = Stack(app, name)
        function(stack, SdkLayer(stack, "Tidewheel", architecture=architecture), architecture)
    keys = {of_type(app, name, "AWS::Lambda::LayerVersion")[0]["Content"]["S3Key"] for name in ("first", "second")}
    assert len(keys) == 2


def test_a_function_without_the_layer_is_left_alone(app: App) -> None:
    stack = Stack(app, "shop")
    SdkLayer(stack, "Tidewheel")
    function(stack, None, X86)
    assert of_type(app, "shop", "AWS::Lambda::Function")[0]["Architectures"] == ["x86_64"]


def test_a_function_of_another_python_is_refused(app: App) -> None:
    stack = Stack(app, "shop")
    with pytest.raises(RuntimeError, match=r"python3.12.*incompatible|incompatible.*python3.12"):
        function(stack, SdkLayer(stack, "Tidewheel"), ARM, lambda_.Runtime.PYTHON_3_12)


def test_an_architecture_without_packages_is_refused(app: App) -> None:
    with pytest.raises(InvalidValue, match="architecture='riscv': give one of arm64, x86_64"):
        SdkLayer(Stack(app, "shop"), "Tidewheel", architecture=lambda_.Architecture.custom("riscv"))


def of_type(app: App, stack: str, type_: str) -> list[dict[str, object]]:
    """The properties of a stack's resources of a type."""
    resources = app.synth().get_stack_by_name(stack).template["Resources"].values()
    return [each["Properties"] for each in resources if each["Type"] == type_]
