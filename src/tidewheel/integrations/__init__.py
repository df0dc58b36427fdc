"""Task frameworks on SQS with delays beyond SQS's 15 minutes: `tidewheel.integrations.dramatiq` and `.celery`."""
