"""What programs use: the client that sends, receives and administers."""
