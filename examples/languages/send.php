<?php
require "vendor/autoload.php";

$text = fn (string $value) => ["DataType" => "String", "StringValue" => $value];
(new Aws\Sqs\SqsClient(["region" => getenv("AWS_REGION")]))->sendMessage([
    "QueueUrl" => getenv("TIDEWHEEL_ADDRESS"),
    "MessageBody" => json_encode(["id" => 17]),
    "MessageAttributes" => ["tidewheel.topic" => $text("orders"), "tidewheel.delay" => $text("3d")],
]);
