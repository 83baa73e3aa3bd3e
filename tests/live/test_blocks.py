#!/usr/bin/env python3
# timeout: 300
"""Blocks of one size and what their words have in common, against what the program put there.

The fixture `contexts` keeps 2,003 records with known constants, stack pointers, a return address,
text and noise. Live, forked, gcore's core and the kernel's must tell the same, groups must be those
of `heap`, and no byte of a text may be printed unasked.
"""

import json
import os
import re
import shutil
import subprocess

import musl
from harness import Failure, Fixture, Skip, Tap, memwhy, need_memwhy, scratch_dir

SECRETS = ("s3cret-t", "the same text", "aaaaaaaa")
SECRET_WORD = hex(int.from_bytes(b"s3cret-t", "little"))[2:]
FIELDS = ("offset distinct distinct_is_lower_bound constant kind resolved symbol parts count min max "
          "entropy_bits top top_count top_name zero_count heap_pointer_count stack_pointer_count "
          "code_pointer_count data_pointer_count source_line call").split()


def ask(*args):
    result = memwhy("blocks", *args)
    if result.code != 0:
        raise Failure(f"blocks {args}: exit {result.code}: {result.err[:300]}")
    return result


def ask_json(*args):
    return ask(*args, "--json").json()


def gcore(pid):
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed (package gdb)")
    path = os.path.join(scratch_dir(), "blocks")
    subprocess.run(["gcore", "-o", path, str(pid)], capture_output=True, timeout=120, check=False,
                   stdin=subprocess.DEVNULL)
    if not os.path.exists(f"{path}.{pid}"):
        raise Skip("gdb may not trace here")
    return f"{path}.{pid}"


def same(document):
    """What does not depend on the way in which it was read."""
    return {key: document[key] for key in ("size_bytes", "groups", "fields", "strings", "list")}


# ---- what the fields must say ----


def check_shape(tap, document, truth):
    fields = document["fields"]
    tap.equal([field["offset"] for field in fields],
              list(range(0, truth["record_usable"], 8)), "fields: one for each word, none left out")
    tap.ok(all(list(field) == FIELDS for field in fields), "fields: every member of the contract")
    tap.ok(all(field["count"] == truth["records"] for field in fields), "fields: of all blocks")
    tap.equal(document["groups"], [{
        "size_bytes": truth["record_chunk"], "usable_bytes": truth["record_usable"],
        "count": truth["records"], "bytes": truth["records"] * truth["record_chunk"],
        "unreachable_count": None, "layout": None}], "groups: the one that was asked for")


def check_words(tap, document, truth):
    at = {field["offset"]: field for field in document["fields"]}

    def is_constant(offset, kind, value):
        got = (at[offset]["kind"], at[offset]["constant"], at[offset]["distinct"])
        tap.equal(got, (kind, value, 1), f"fields: {offset:#x} is {kind} {value}")

    is_constant(0x0, "zero", "0x0")
    is_constant(0x30, "constant", "0x1f800010001f")
    is_constant(0xf8, "code-pointer", truth["return_address"])
    is_constant(0xcb0, "code-pointer", truth["return_address"])
    is_constant(0xc8, "data-pointer", truth["records_address"])
    is_constant(0xca0, "constant", "0x1e0434352")
    is_constant(0xcc0, "constant", "0xffffffff80131534")
    is_constant(0xce0, "data-pointer", truth["base_address"])
    tap.equal((at[0x98]["kind"], at[0x98]["distinct"], at[0x98]["constant"]),
              ("stack-pointer", truth["stack_pointers"], None), "fields: stack pointers are counted")
    tap.equal((at[0x78]["kind"], at[0x78]["distinct"], at[0x78]["min"], at[0x78]["max"]),
              ("small-int", truth["records"], "0x0", hex(truth["records"] - 1)), "fields: a range")
    nulls = len(range(0, truth["records"], 3))
    tap.equal((at[0x80]["kind"], at[0x80]["distinct"], at[0x80]["zero_count"], at[0x80]["top"],
               at[0x80]["heap_pointer_count"]),
              ("heap-pointer", 2, nulls, truth["first_record"], truth["records"] - nulls),
              "fields: a pointer that may be null")
    tap.equal((at[0xb8]["kind"], at[0xb8]["distinct"]), ("random", truth["records"]),
              "fields: noise")
    tap.equal(at[0xc0]["kind"], "float", "fields: doubles")
    tap.ok(all(at[offset]["kind"] == "random" for offset in range(0x1a0, 0x2a0, 8)),
           "fields: an area of noise")
    tap.equal((at[0xd0]["kind"], at[0xd0]["constant"], at[0xd0]["min"], at[0xd0]["top"]),
              ("text", None, None, None), "fields: a text is not told")
    tap.equal([(part["offset"], part["width"], part["value"]) for part in at[0x40]["parts"]],
              [(0, 4, "0x2b0000"), (6, 2, "0x0"), (5, 1, "0x2")],
              "fields: constants in a word that varies")


def check_names(tap, document, truth):
    field = document["fields"][0xf8 // 8]
    offset = int(truth["return_address"], 16) - int(truth["base_address"], 16)
    tap.equal(field["resolved"], f"contexts+{offset:#x}", "names: module and offset")
    tap.ok(re.fullmatch(r"dispatch_exception\+0x[0-9a-f]+", field["symbol"] or ""),
           "names: the function that it returns to", field["symbol"])
    tap.ok("capture_context" in (field["call"] or ""), "names: the call before it", field["call"])
    tap.ok(re.search(r"contexts\.c:\d+$", field["source_line"] or ""), "names: the source line",
           field["source_line"])


# ---- one process, read in every way ----


def check_secrets(tap, pid, size):
    for what, args in (("fields", ("--size", size, "--fields")), ("groups", ())):
        for form in ((), ("--json",)):
            out = ask(pid, *args, *form).out
            tap.ok(not any(secret in out for secret in (*SECRETS, SECRET_WORD)),
                   f"secrets: none in {what} {''.join(form)}")
    out = ask(pid, "--size", size, "--fields", "--contents").out
    tap.ok("s3cret-t" in out, "secrets: shown when asked for")


def check_groups(tap, pid, truth):
    document = ask_json(pid)
    sizes = {row["size_bytes"]: row["in_use_count"]
             for row in memwhy("heap", pid, "--json").json()["sizes"] if row["in_use_count"]}
    tap.equal({group["size_bytes"]: group["count"] for group in document["groups"]}, sizes,
              "groups: the sizes of `heap`")
    held = [group["bytes"] for group in document["groups"]]
    tap.equal(held, sorted(held, reverse=True), "groups: most bytes first")
    texts = [row for row in document["strings"]["rows"] if row["length_bytes"] == 90]
    tap.equal(len(texts), truth["texts"], "text: each of them once")
    tap.equal(sum(row["count"] for row in texts), truth["text_blocks"], "text: every copy")
    tap.equal(sum(row["wasted_bytes"] for row in texts), truth["text_wasted_bytes"], "text: waste")
    tap.ok(all(row["text"] is None for row in texts), "text: not told")
    told = ask_json(pid, "--contents")["strings"]["rows"]
    tap.ok(any((row["text"] or "").startswith("the same text") for row in told),
           "text: told when asked for")


def check_list(tap, pid, truth):
    wanted = sorted(int(address, 16) for address in truth["addresses"])
    lines = ask(pid, "--size", truth["record_usable"], "--list").out.split()
    tap.equal([int(word, 16) for word in lines[::2]], wanted, "list: every block, ascending")
    tap.equal(set(lines[1::2]), {str(truth["record_chunk"])}, "list: their size")
    some = ask(pid, "--size", truth["record_chunk"], "--list", "--limit", 7).out.split()
    tap.equal([int(word, 16) for word in some[::2]], wanted[:7], "list: as many as asked for")
    rows = ask_json(pid, "--size", truth["record_usable"], "--list", "--limit", 5)["list"]
    tap.equal([int(row["address"], 16) for row in rows], wanted[:5], "list: the same in JSON")


def check_screen(tap, pid, truth):
    out = ask(pid, "--size", truth["record_usable"], "--fields").out
    lines = out.splitlines()
    tap.ok(len(lines) <= 60, "screen: 425 words on one or two", len(lines))
    tap.ok(re.search(r"0x98 +stack-pointer +82\b", out), "screen: 82 stack pointers", out)
    tap.ok(re.search(r"0x30 +constant +1 +0x1f800010001f\b", out), "screen: a constant", out)
    tap.ok(re.search(r"0x2a0\.\.0xca0 +zero +1$", out, re.M), "screen: zeros are folded", out)
    folded = re.findall(r"^  0x([0-9a-f]+)(?:\.\.0x([0-9a-f]+))? ", out, re.M)
    at = 0
    for first, last in folded:
        if int(first, 16) != at:
            break
        at = int(last, 16) if last else at + 8
    tap.equal(at, truth["record_usable"], "screen: no word is left out")
    wrong = ask(pid, "--size", truth["record_usable"] - 8, "--fields").out
    tap.ok(f"--size {truth['record_usable']}" in wrong,
           "screen: the size of a request leads to that of its blocks", wrong)


def check_sources(tap, target, first):
    size = ("--size", first["size_bytes"], "--fields", "--list")
    forked = memwhy("blocks", target.pid, *size, "--fork", "--json")
    if forked.code == 0:
        document = forked.json()
        tap.equal(same(document), same(first), "sources: a forked copy tells the same")
        tap.ok(not any(row["kind"] == "blocks-not-of-one-moment" for row in document["findings"]),
               "sources: and it is of one moment")
    else:
        tap.skip("sources: a forked copy", forked.err.splitlines()[0] if forked.err else "refused")
    core = ask_json(gcore(target.pid), *size)
    for document in (core, first):  # files may be out of reach of a core, memory is not
        for field in document["fields"]:
            field["source_line"] = None
    tap.equal(same(core), same(first), "sources: gcore's core tells the same")


def contexts(tap):
    with Fixture("contexts") as target:
        truth, pid = target.truth, target.pid
        document = ask_json(pid, "--size", truth["record_usable"], "--fields", "--list")
        tap.ok(any(row["kind"] == "blocks-not-of-one-moment" for row in document["findings"]),
               "findings: read while it ran")
        check_shape(tap, document, truth)
        check_words(tap, document, truth)
        check_names(tap, document, truth)
        largest = ask_json(pid, "--fields", "--list")
        tap.equal(largest["fields"], document["fields"], "fields: of the largest group by default")
        check_groups(tap, pid, truth)
        check_list(tap, pid, truth)
        check_screen(tap, pid, truth)
        check_secrets(tap, pid, truth["record_usable"])
        tap.guard("sources", check_sources, tap, target, json.loads(json.dumps(document)))


# ---- musl ----


def check_musl(tap, release):
    """Slots are larger than what was asked for, and a block may begin behind the start of its own:
    every word lies where the program put it all the same."""
    name = f"musl {release.version}"
    with Fixture(release.fixture("contexts", "contexts.c")) as target:
        truth = target.truth
        groups = [group for group in ask_json(target.pid)["groups"]
                  if group["count"] >= truth["records"] and group["usable_bytes"] >= 3392]
        tap.equal(len(groups), 1, f"{name}: one size holds the records")
        size = groups[0]["usable_bytes"]
        document = ask_json(target.pid, "--size", size, "--fields")
        tap.equal([group["size_bytes"] for group in document["groups"]], [groups[0]["size_bytes"]],
                  f"{name}: a usable size finds its slots")
        at = {field["offset"]: field for field in document["fields"]}
        tap.equal(len(at), size // 8, f"{name}: one field for each word")
        tap.equal((at[0x30]["constant"], at[0xf8]["constant"], at[0x98]["distinct"]),
                  ("0x1f800010001f", truth["return_address"], truth["stack_pointers"]),
                  f"{name}: the words are where the program put them")
        lines = ask(target.pid, "--size", size, "--list").out.split()[::2]
        tap.equal(len(lines), groups[0]["count"], f"{name}: every slot is listed")


def on_musl(tap):
    for release in musl.releases():
        check_musl(tap, release)


def usage(tap):
    for args in (("--size", "0"), ("--size", "many"), ("--limit", "3"), ("--list", "--fields")):
        tap.equal(memwhy("blocks", os.getpid(), *args).code, 2, f"usage: {' '.join(args)}")


def main():
    need_memwhy()
    tap = Tap()
    tap.guard("contexts", contexts, tap)
    tap.guard("musl", on_musl, tap)
    tap.guard("usage", usage, tap)
    tap.done()


if __name__ == "__main__":
    main()
