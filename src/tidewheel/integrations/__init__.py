"""Adds delays beyond SQS's 15 minutes to task frameworks, in modules `dramatiq` and `celery`, and reads schedules."""
