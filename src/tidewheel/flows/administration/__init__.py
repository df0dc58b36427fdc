"""Administration: the lives of topics, subscriptions and waiting messages."""
