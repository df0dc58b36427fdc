"""Holds the operator's calls: administration, health, statistics, dead letters and damaged messages."""
