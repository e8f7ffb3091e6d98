"""Model <-> protobuf: the only reader of our generated messages."""
