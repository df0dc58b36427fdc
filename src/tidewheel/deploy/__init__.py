"""Deploys the service from an installed wheel, without Node, the CDK and a clone."""
