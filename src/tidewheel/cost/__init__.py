"""Calculates the service's cost from AWS's prices and measured requests and function times."""
