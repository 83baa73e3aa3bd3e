"""A second opinion on reachability, simple and slow: marking over a core of a small process.

Takes the blocks from `memwhy heap CORE --list-blocks` and everything else from the core itself:
registers of all kinds, memory that is writable or without a file, stacks less what lies some way
below each stack pointer (mappings of a stack's size: smaller ones are the program's own and count
whole; glibc 2.42 and newer may have several stacks in one mapping). An aligned word that points into a block's usable bytes leads to it. Allocator's own
words are no roots: what lies between blocks, and pointers to the headers of free ones.

    reach.py CORE      prints what is lost, by size
"""

import bisect
import collections
import struct
import sys

PT_LOAD, PT_NOTE, WRITABLE = 1, 4, 2
NT_PRSTATUS, NT_FPREGSET, NT_X86_XSTATE, NT_FILE = 1, 2, 0x202, 0x46494c45
REGISTERS_AT, REGISTER_COUNT, RSP = 112, 27, 19
RED_ZONE, HEADER, STACK_MIN, DEAD = 128, 8, 1000 << 10, 256 << 10
MAIN_STACK_AT = 0x7ff000000000
IN_USE = ("in-use", "mmapped")

Segment = collections.namedtuple("Segment", "start size flags offset")
Block = collections.namedtuple("Block", "start end size state")


class Core:
    """x86-64 alone; trusts the file: it is of a fixture."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments, self.registers, self.stack_pointers, self.files = [], [], [], []
        for index in range(count):
            (kind, flags, at, address, _, in_file, _, _) = struct.unpack_from(
                "<IIQQQQQQ", self.data, offset + index * size)
            if kind == PT_LOAD and in_file:
                self.segments.append(Segment(address, in_file, flags, at))
            elif kind == PT_NOTE:
                self._notes(at, at + in_file)

    def _notes(self, at, end):
        while at + 12 <= end:
            names, size, kind = struct.unpack_from("<III", self.data, at)
            start = at + 12 + (names + 3 & ~3)
            body = self.data[start:start + size]
            if kind == NT_PRSTATUS:
                words = struct.unpack_from(f"<{REGISTER_COUNT}Q", body, REGISTERS_AT)
                self.registers += words
                self.stack_pointers.append(words[RSP])
            elif kind in (NT_FPREGSET, NT_X86_XSTATE):
                self.registers += words_of(body)
            elif kind == NT_FILE:
                count, = struct.unpack_from("<Q", body, 0)
                rows = struct.iter_unpack("<QQQ", body[16:16 + 24 * count])
                self.files += [(first, last) for first, last, _ in rows]
            at = start + (size + 3 & ~3)

    def words(self, segment, start, end):
        """Aligned words of [start, end), which lies in the segment."""
        start, end = start + 7 & ~7, end & ~7
        at = segment.offset + start - segment.start
        return words_of(self.data[at:at + max(0, end - start)])

    def segment_of(self, address):
        for segment in self.segments:
            if segment.start <= address < segment.start + segment.size:
                return segment
        return None


def words_of(data):
    return struct.unpack(f"<{len(data) // 8}Q", data[:len(data) & ~7])


class Blocks:
    def __init__(self, rows):
        """rows: (address, size, state) as heap --list-blocks has them, of glibc."""
        self.all = sorted(Block(address, address + size - 2 * HEADER if state == "mmapped"
                                else address + size - HEADER, size, state)
                          for address, size, state in rows)
        self.used = [block for block in self.all if block.state in IN_USE]
        self.starts = [block.start for block in self.used]
        self.low, self.high = self.starts[0], self.used[-1].end
        self.free_headers = {block.start - 2 * HEADER for block in self.all
                             if block.state not in IN_USE}

    def find(self, word):
        """Index of the block in use that the word points into; None."""
        if not self.low <= word < self.high:
            return None
        at = bisect.bisect_right(self.starts, word) - 1
        return at if word < self.used[at].end else None


def root_ranges(core, blocks):
    """(segment, start, end) of memory that is neither a block's nor an allocator's."""
    for segment in core.segments:
        end = segment.start + segment.size
        has_file = any(first <= segment.start < last for first, last in core.files)
        if not segment.flags & WRITABLE and (has_file or segment.flags & 1):
            continue
        inside = [block for block in blocks.all
                  if segment.start <= block.start - 2 * HEADER < end]
        if any(block.state != "mmapped" for block in inside):
            continue  # the allocator's, between its blocks
        inside = [(block.start - 2 * HEADER, block.end) for block in inside]
        if segment.size >= STACK_MIN or segment.start > MAIN_STACK_AT:
            inside += [(pointer - DEAD, pointer - RED_ZONE) for pointer in core.stack_pointers
                       if segment.start <= pointer < end]
        start = segment.start
        for first, last in sorted(inside):
            yield segment, start, max(start, first)
            start = max(start, last)
        yield segment, start, end


def successors(core, blocks, index):
    block = blocks.used[index]
    segment = core.segment_of(block.start)
    if not segment:
        return
    for word in core.words(segment, block.start, min(block.end, segment.start + segment.size)):
        target = blocks.find(word)
        if target is not None:
            yield target


def mark(core, blocks):
    """Indices of the blocks in use that are reached."""
    words = list(core.registers)
    for segment, start, end in root_ranges(core, blocks):
        words += core.words(segment, start, end)
    pending = {blocks.find(word) for word in words if word not in blocks.free_headers} - {None}
    reached = set(pending)
    pending = list(pending)
    while pending:
        for target in successors(core, blocks, pending.pop()):
            if target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def lost(path, rows):
    """The blocks that nothing leads to."""
    core, blocks = Core(path), Blocks(rows)
    reached = mark(core, blocks)
    return [block for index, block in enumerate(blocks.used) if index not in reached]


def main():
    from shape_checks import list_blocks  # pylint: disable=import-outside-toplevel
    rows = [(block.address, block.size, block.state) for block in list_blocks(sys.argv[1])]
    sizes = collections.Counter(block.size for block in lost(sys.argv[1], rows))
    for size, count in sorted(sizes.items()):
        print(f"{count} of {size} bytes")


if __name__ == "__main__":
    main()
