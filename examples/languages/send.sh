aws sqs send-message --queue-url "$TIDEWHEEL_ADDRESS" --message-body '{"id": 17}' --message-attributes \
  'tidewheel.topic={DataType=String,StringValue=orders},tidewheel.delay={DataType=String,StringValue=3d}'
