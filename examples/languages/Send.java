import java.util.Map;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;

public class Send {
    static MessageAttributeValue text(String value) {
        return MessageAttributeValue.builder().dataType("String").stringValue(value).build();
    }

    public static void main(String[] arguments) {
        var attributes = Map.of("tidewheel.topic", text("orders"), "tidewheel.delay", text("3d"));
        SqsClient.create().sendMessage(message -> message.queueUrl(System.getenv("TIDEWHEEL_ADDRESS"))
            .messageBody("{\"id\": 17}").messageAttributes(attributes));
    }
}
