// Stream.
