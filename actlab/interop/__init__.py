"""Weights to and from other libraries: `huggingface.load(directory)`, `huggingface.save(config, params, directory)`."""
