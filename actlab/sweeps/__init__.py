"""From a config to the results of its runs."""
