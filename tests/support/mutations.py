"""Contents that a disk, an editor or another program may make of a file's."""

import json

from hypothesis import HealthCheck, settings, strategies as st


@st.composite
def mutations(draw, content: bytes) -> bytes:
    """A fault of some kind anywhere in a content."""
    place = draw(st.integers(0, len(content) - 1))
    kind = draw(st.sampled_from(["flip", "cut", "drop", "insert", "double", "replace"]))
    some = draw(st.sampled_from([b"\0", b"\xff", b'"', b"{", b"]", b",", b"-", b"9" * 400, b"\n", b"null", b"1e999"]))
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ 1 << draw(st.integers(0, 7))]) + content[place + 1 :]
    if kind == "replace":
        return content[:place] + some + content[place + len(some) :]
    end = {"cut": len(content), "drop": place + 1, "insert": place, "double": place}[kind]
    middle = {"insert": some, "double": content[place : place + 20]}.get(kind, b"")
    return content[:place] + middle + content[end:]


def values_of(good: object):
    """A JSON object with one of its values, at any depth, replaced by any other."""
    odd = st.sampled_from(
        [None, True, -1, 0, 10**400, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "\0", [], {}, [1], {"a": 1}]
    )

    @st.composite
    def changed(draw):
        result = json.loads(json.dumps(good))
        node, steps = result, draw(st.integers(1, 3))
        for _ in range(steps):
            keys = list(node) if isinstance(node, dict) else list(range(min(len(node), 50)))
            key = draw(st.sampled_from(keys))
            if steps == 1 or not isinstance(node[key], (dict, list)) or not node[key]:
                break
            node, steps = node[key], steps - 1
        node[key] = draw(odd)
        return json.dumps(result).encode()

    return changed()


quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
