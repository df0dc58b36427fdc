"""Administration of topics, subscriptions and waiting messages."""
