"""Holds the consumer: what receives, claims, handles and acknowledges messages."""
