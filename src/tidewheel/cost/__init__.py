"""What the service costs: AWS's prices, times the requests and the function time that were measured."""
