"""Receives, claims, handles and acknowledges messages."""
