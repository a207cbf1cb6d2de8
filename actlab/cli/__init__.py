"""The commands, one file each, and what they share: flags, help, errors as one sentence."""
