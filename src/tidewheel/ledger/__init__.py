"""Encodes ledgers and their metadata."""
