package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() {
	body := `{"tidewheel": {"topic": "orders", "delay": "3d"}, "body": {"id": 17}}`
	message := sqs.SendMessageInput{QueueUrl: aws.String(os.Getenv("TIDEWHEEL_ADDRESS")), MessageBody: &body}
	loaded, err := config.LoadDefaultConfig(context.Background())
	if err == nil {
		_, err = sqs.NewFromConfig(loaded).SendMessage(context.Background(), &message)
	}
	if err != nil {
		log.Fatal(err)
	}
}
