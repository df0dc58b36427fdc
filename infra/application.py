"""The CDK app, for the CDK's command line and without it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import App, IStackSynthesizer, Validations

from infra.environments import environment_named
from infra.service_stack import ServiceStack
from tidewheel.cdk.environment import Environment

DEFAULT_STACK = "tidewheel"
DEFAULT_ENVIRONMENT = "development"
BUNDLE_VARIABLE = "TIDEWHEEL_BUNDLE"
BUNDLING_STACKS = "aws:cdk:bundling-stacks"


def build_app(
    *,
    outdir: str | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Environment | None = None,
    synthesizer: IStackSynthesizer | None = None,
) -> App:
    """Returns the app with the stack, not yet synthesized.

    The context comes from cdk.json, with and without the CDK's command line. The command line's own
    context overrides cdk.json, and the overrides come last. With the key `nag`, synthesis fails on findings of cdk-nag.

    Args:
        outdir: Folder for the cloud assembly; by default what CDK_OUTDIR names.
        overrides: Context that nothing overrules.
        environment: Where another than those of `infra/environments.py` is wanted.
        synthesizer: Says where assets are; by default in the bucket of the CDK's bootstrap.

    Raises:
        UnknownEnvironment: The context names an environment that does not exist.
    """
    app = App(
        outdir=outdir,
        analytics_reporting=False,
        context={**_file_context(), BUNDLING_STACKS: []},
        post_cli_context={**_bundling_context(os.environ), **(overrides or {})},
    )
    name = app.node.try_get_context("environment") or DEFAULT_ENVIRONMENT
    stack = app.node.try_get_context("stack") or DEFAULT_STACK
    ServiceStack(app, stack, environment=environment or environment_named(name), synthesizer=synthesizer)
    if app.node.try_get_context("nag"):
        _add_nag(app)
    return app


def _add_nag(app: App) -> None:
    """Adds the checks of cdk-nag, which only developers install."""
    from cdk_nag import AwsSolutionsChecks

    Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def _file_context() -> dict[str, object]:
    """Returns the context of cdk.json."""
    path = Path(__file__).resolve().parent.parent / "cdk.json"
    context: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))["context"]
    return context


def _bundling_context(variables: Mapping[str, str]) -> dict[str, object]:
    """Returns the context for bundling functions or not.

    Bundling needs PyPI and a minute. TIDEWHEEL_BUNDLE=1 switches it on, =0 off. Where it is not set, the
    CDK's command line decides, which bundles before it deploys; without the command line it is off.
    """
    choices: dict[str, dict[str, object]] = {"0": {BUNDLING_STACKS: []}, "1": {BUNDLING_STACKS: ["**"]}}
    return choices.get(variables.get(BUNDLE_VARIABLE, ""), {})
