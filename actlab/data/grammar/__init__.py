"""The story grammar: a corpus that is built in, and whose entropy is known exactly."""
