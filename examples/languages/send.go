package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() {
	loaded, err := config.LoadDefaultConfig(context.Background())
	if err == nil {
		address, body := os.Getenv("TIDEWHEEL_ADDRESS"), `{"tidewheel": {"topic": "orders", "delay": "3d"}, "body": {"id": 17}}`
		_, err = sqs.NewFromConfig(loaded).SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: &address, MessageBody: &body})
	}
	if err != nil {
		log.Fatal(err)
	}
}
