"""Documents of one file: text, Markdown, JSON lines, Parquet, and the Arrow files of Hugging Face `datasets`.

Each file is read as a stream: memory holds a document, or a batch of them, and never the file.
"""

import codecs
import contextlib
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from actlab.errors import UserError, suggestion
from actlab.files import parse_json

SEPARATOR = "<|endoftext|>"
MAX_DOCUMENT_BYTES = 1 << 30  # a TFDS example is a protocol buffer, which ends at 2 GiB
_HEAD = 1024  # bytes of a document by which UTF-16 is told
_BATCH = 256  # documents of Parquet and Arrow that are in memory at once
_BUFFER = 1 << 20  # bytes, of Parquet; by default a whole column of several row groups is read ahead


def format_of(path: Path) -> str | None:
    """The suffix by which a file is read, such as ".jsonl.gz"; None for a file that is not read."""
    return next((suffix for suffix in READERS if path.name.lower().endswith(suffix)), None)


def is_structured(path: Path) -> bool:
    """Whether its documents are the values of a field."""
    return format_of(path) not in (".txt", ".md")


def documents(path: Path, field: str = "text") -> Iterator[str]:
    """Documents of a file in order, without the white space around them; empty ones are left out.

    Raises:
        UserError: a damaged file, text that is not UTF-8, a document without the field, or one longer than 1 GiB.
    """
    suffix = format_of(path)
    if suffix is None:
        raise UserError(f"{path} cannot be read: give a file that ends in {', '.join(READERS)}.")
    for text in READERS[suffix](path, field):
        if stripped := text.removeprefix("\ufeff").strip():
            yield stripped


def _of_text(path: Path, field: str) -> Iterator[str]:
    for offset, raw in _between_separators(path):
        if raw[:_HEAD].count(0) > len(raw[:_HEAD]) / 4:
            raise UserError(f"{path} is not UTF-8 but perhaps UTF-16: convert it (for example with iconv).")
        try:
            yield raw.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path} is not UTF-8 at byte {offset + error.start}: convert it (for example with iconv)."
            ) from error


def _between_separators(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of what is between separator lines."""
    separator, start, end, lines = SEPARATOR.encode(), 0, 0, []
    with path.open("rb") as file:
        while line := file.readline(MAX_DOCUMENT_BYTES + 1):
            end += len(line)
            if line.removeprefix(codecs.BOM_UTF8).strip() == separator:
                yield start, b"".join(lines)
                start, lines = end, []
                continue
            lines.append(line)
            if end - start > MAX_DOCUMENT_BYTES:
                raise UserError(f"{path} has a document over 1 GiB at byte {start}: divide it by lines {SEPARATOR}.")
    yield start, b"".join(lines)


def _of_lines(path: Path, field: str, opened: Callable[[], io.BufferedIOBase]) -> Iterator[str]:
    """A JSON object on each line; white lines are skipped."""
    number = 0
    try:
        with opened() as file:
            while line := file.readline(MAX_DOCUMENT_BYTES + 1):
                number += 1
                if len(line) > MAX_DOCUMENT_BYTES:
                    raise UserError(f"{path} line {number} is longer than 1 GiB: divide the document.")
                if line.strip():
                    yield _value(path, number, line, field)
    except (EOFError, OSError, zlib.error) as error:  # of decompression
        raise UserError(f"{path} is damaged after line {number} ({error}): get the file again.") from error


def _value(path: Path, number: int, line: bytes, field: str) -> str:
    row = parse_json(line.rstrip(), f"{path} line {number}", "write an object with the text in a field on each line")
    if not row:
        raise UserError(f"{path} line {number} has no fields: remove the line.")
    if number > 1 and field not in row:  # the lines before it have the field
        what = f"{path} line {number} has no field {field!r}"
        raise UserError(f"{what}: complete or remove the line, or name another field with --field=NAME.")
    _require_field(f"{path} line {number}", field, list(row))
    text = row[field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise UserError(f"{path} line {number}: field {field!r} is not a text but {type(text).__name__}: {_OTHER}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{path} line {number} has half of a surrogate pair: mend the line.") from error
    return text


_OTHER = "give another with --field=NAME."


def _require_field(where: str, field: str, fields: list[str]) -> None:
    if field not in fields:
        raise UserError(f"{where} has no field {field!r}: {suggestion(field, fields)} Set it with --field=NAME.")


def _of_zstd(path: Path, field: str) -> Iterator[str]:
    import pyarrow as pa  # takes half a second; TFDS brings it

    return _of_lines(path, field, lambda: io.BufferedReader(pa.input_stream(str(path), compression="zstd")))


def _of_parquet(path: Path, field: str) -> Iterator[str]:
    from pyarrow import parquet

    with _arrow_errors(path), parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
        _require_column(path, field, file.schema_arrow)
        for batch in file.iter_batches(_BATCH, columns=[field]):
            yield from (text or "" for text in batch.column(0).to_pylist())


def _of_arrow(path: Path, field: str) -> Iterator[str]:
    import pyarrow as pa

    with _arrow_errors(path), pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        _require_column(path, field, stream.schema)
        for batch in stream:
            column = batch.column(stream.schema.names.index(field))
            for first in range(0, len(column), _BATCH):
                yield from (text or "" for text in column.slice(first, _BATCH).to_pylist())


def _require_column(path: Path, field: str, schema: Any) -> None:
    import pyarrow as pa

    _require_field(str(path), field, list(schema.names))
    if schema.names.count(field) > 1:
        raise UserError(f"{path} has {schema.names.count(field)} columns {field!r}: rename all but one.")
    kind = schema.field(field).type
    if pa.types.is_dictionary(kind):  # a column of categories
        kind = kind.value_type
    readable = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_one(kind) for is_one in readable):
        raise UserError(f"{path}: field {field!r} is not a text but {kind}: {_OTHER}")


@contextlib.contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except UnicodeDecodeError as error:
        raise UserError(f"{path} has text that is not UTF-8 ({error.reason}): convert it.") from error
    except (pa.ArrowException, OSError) as error:
        with path.open("rb") as file:
            if file.read(6) == b"ARROW1":  # of Arrow's file format; `datasets` writes its stream format
                raise UserError(f"{path} is in Arrow's file format, which is not read: write it as Parquet.") from error
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}): get the file again.") from error


READERS: dict[str, Callable[[Path, str], Iterator[str]]] = {
    ".txt": _of_text,
    ".md": _of_text,
    ".jsonl": lambda path, field: _of_lines(path, field, lambda: path.open("rb")),
    ".jsonl.gz": lambda path, field: _of_lines(path, field, lambda: gzip.open(path)),
    ".jsonl.zst": _of_zstd,
    ".parquet": _of_parquet,
    ".arrow": _of_arrow,
}
