"""Jobs for much data: merge, rebuild and import. They run in this process or on Spark, with the same code a task."""
