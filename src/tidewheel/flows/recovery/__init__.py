"""Recovery: audits and rebuilds of a topic's index."""
