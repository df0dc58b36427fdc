<?php
use Illuminate\Queue\SqsQueue;

class TidewheelQueue extends SqsQueue
{
    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $queue ?: $this->default, $data, $delay);
        return $this->enqueueUsing($job, $payload, $queue, $delay, function ($payload) use ($delay) {
            $options = ['topic' => 'jobs', 'delay' => $this->secondsUntil($delay)];
            $envelope = json_encode(['tidewheel' => $options, 'body' => $payload]);
            return $this->pushRaw($envelope, env('TIDEWHEEL_ADDRESS'));
        });
    }
}
