"""The files of a workdir: the only place that writes and reads them."""
