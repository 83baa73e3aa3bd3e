"""Reads what test_json.c encoded, with Python's own json, and compares each value with the bytes
that it was made from. Exit code 0 only when all agree; prints how many it compared."""
import codecs
import json
import math
import struct
import sys

# Each byte that is not part of valid UTF-8 becomes one U+FFFD.
codecs.register_error("per-byte", lambda e: ("\ufffd" * (e.end - e.start), e.end))


def main():
    text = open(sys.argv[1], "rb").read()
    for byte in text:
        assert byte == 0x0a or byte >= 0x20 and byte != 0x7f, "a raw control byte"
    document = json.loads(text.decode("utf-8"))
    for row in document["strings"]:
        raw = bytes.fromhex(row["hex"])
        assert row["value"] == raw.decode("utf-8", "per-byte"), row["hex"]
    for row in document["integers"]:
        assert isinstance(row["value"], int) and row["value"] == int(row["decimal"]), row
    for row in document["doubles"]:
        (value,) = struct.unpack(">d", bytes.fromhex(row["bits"]))
        if not math.isfinite(value):
            assert row["value"] is None, row
        else:
            assert struct.pack(">d", float(row["value"])) == struct.pack(">d", value), row
    assert document["keys"] == {bytes.fromhex(h).decode("utf-8", "per-byte"): i
                                for i, h in enumerate(document["key_hex"])}
    print(len(document["strings"]), len(document["integers"]), len(document["doubles"]))


main()
