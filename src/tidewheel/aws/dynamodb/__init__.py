"""Implements the ports of stored state on a DynamoDB table, one class a port."""
