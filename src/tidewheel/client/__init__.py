"""Holds the client, which programs use to send, receive and administer."""
