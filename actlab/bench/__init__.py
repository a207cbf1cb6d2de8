"""Speed, measured beside outside peers on the same machine in the same process."""
