"""TensorBoard's event files read back without TensorFlow."""

import struct

import numpy as np
from tensorboardX.proto import event_pb2
from tensorboardX.record_writer import masked_crc32c

from actlab.callbacks import scalars


def read(folder):
    """The events of a run's one file: records of length, checksum, content, checksum."""
    (file,) = folder.iterdir()
    content, events = file.read_bytes(), []
    while content:
        (size,), header = struct.unpack("<Q", content[:8]), content[:8]
        body = content[12 : 12 + size]
        assert struct.unpack("<I", content[8:12])[0] == masked_crc32c(header)
        assert struct.unpack("<I", content[12 + size : 16 + size])[0] == masked_crc32c(body)
        events.append(event_pb2.Event.FromString(body))
        content = content[16 + size :]
    assert events[0].file_version == "brain.Event:2"
    return events[1:]


def found(folder):
    """(step, tag -> value) of each event of a run."""
    return [(event.step, {value.tag: value.simple_value for value in event.summary.value}) for event in read(folder)]


def expected(rows, run):
    """What `found` must give for rows of metrics.jsonl."""
    rounded = lambda value: float(np.float32(value))
    of_row = lambda row: {tag: rounded(value) for tag, value in scalars(row).items()}
    return [(row["step"], of_row(row)) for row in rows if row["run"] == run]
