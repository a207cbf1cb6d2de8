"""Speed, measured in turns with a reference in the same process. Nothing in production imports this."""
