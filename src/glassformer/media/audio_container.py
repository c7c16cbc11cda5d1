"""The containers of compressed audio: whether a file is whole, which its decoder does not say.

Decoders go on where a file is cut off or damaged, and give less sound. Each check reads sizes,
counts and checksums of the container, decodes nothing, and raises DataError.
"""

import zlib
from typing import NamedTuple

from glassformer.errors import DataError

MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
OGG_HEAD, OGG_LAST = 27, 4
"""Bytes of a page's head before its table; flag of the last page of a stream."""
RATES = (44_100, 48_000, 32_000)
KILOBITS = {
    1: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Rates of MPEG layer III in kbit/s by version; 2 is also 2.5."""
TAGS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3", b"3DI", b"\0")
"""Beginnings of what may stand behind the last frame."""


class Mp3Frame(NamedTuple):
    """A frame of MPEG layer III: bytes, sample rate, samples, and bytes of its side information."""

    size: int
    rate: int
    samples: int
    side: int


def cut_off(where: str, what: str) -> DataError:
    """The error for a file that is not whole."""
    return DataError(f"{where} is not whole ({what}); copy it again, or write it anew")


def without_id3(raw: bytes) -> bytes:
    """A file behind the ID3v2 tags at its beginning."""
    begin = 0
    while raw[begin : begin + 3] == b"ID3" and len(raw) >= begin + 10:
        size = 0
        for byte in raw[begin + 6 : begin + 10]:
            size = size << 7 | byte & 0x7F
        begin += 10 + size + 10 * bool(raw[begin + 5] & 0x10)  # a footer, if there is one
    return raw[begin:] if begin else raw


def check_ogg(raw: bytes, where: str) -> None:
    """Check every page of an Ogg file: one stream of Vorbis or Opus, its pages numbered, their
    checksums true, the last one marked (RFC 3533)."""
    at, serial, last = 0, raw[14:18], False
    packet = raw[OGG_HEAD + raw[26] :] if len(raw) > OGG_HEAD else b""
    if len(raw) > OGG_HEAD and not packet.startswith((b"\1vorbis", b"OpusHead")):
        raise DataError(
            f"{where} is an Ogg file that begins with neither Vorbis nor Opus; write it as one of "
            f"them"
        )
    number = 0
    while not last:
        head = raw[at : at + OGG_HEAD]
        table = raw[at + OGG_HEAD : at + OGG_HEAD + head[26]] if len(head) == OGG_HEAD else b""
        size = OGG_HEAD + len(table) + sum(table)
        if len(head) < OGG_HEAD or len(table) < head[26] or at + size > len(raw):
            raise cut_off(where, f"it ends in page {number + 1}, which is not marked as the last")
        if head[:4] != b"OggS" or head[18:22] != number.to_bytes(4, "little"):
            raise cut_off(where, f"page {number + 1} is missing or damaged")
        if head[14:18] != serial:
            raise DataError(f"{where} holds several streams; write the one with the audio alone")
        if ogg_checksum(head[:22] + bytes(4) + raw[at + 26 : at + size]) != head[22:26]:
            raise cut_off(where, f"the checksum of page {number + 1} is another")
        at, number, last = at + size, number + 1, bool(head[5] & OGG_LAST)
    if raw[at : at + 4] == b"OggS":
        raise DataError(f"{where} holds several streams, one after another; give a file for each")


def ogg_checksum(page: bytes) -> bytes:
    """CRC-32 of a page as Ogg has it: polynomial 0x04c11db7, highest bit first, from 0.

    It is zlib's, of which every byte and the result are mirrored and which does not begin at 0.
    """
    mirrored = zlib.crc32(page.translate(MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return mirrored.to_bytes(4, "big").translate(MIRRORED)


def mp3_frame(raw: bytes, at: int) -> Mp3Frame | None:
    """The frame of MPEG layer III that begins at a byte; None: none does."""
    head = int.from_bytes(raw[at : at + 4], "big")
    version, layer, kilobits = head >> 19 & 3, head >> 17 & 3, head >> 12 & 15
    if len(raw) < at + 4 or head >> 21 != 0x7FF or version == 1 or layer != 1:
        return None
    if kilobits in (0, 15) or head >> 10 & 3 == 3:
        return None
    rate = RATES[head >> 10 & 3] // {3: 1, 2: 2, 0: 4}[version]
    first, mono = version == 3, head >> 6 & 3 == 3
    samples = 1152 if first else 576
    size = samples // 8 * KILOBITS[1 if first else 2][kilobits] * 1000 // rate + (head >> 9 & 1)
    side = (17 if mono else 32) if first else (9 if mono else 17)
    return Mp3Frame(size, rate, samples, side)


def check_mp3(raw: bytes, where: str) -> int | None:
    """Check that an MP3 file is frame after frame to its end, as many as its first one says.

    The samples that it decodes to, where no frame says how many there are: then a cut between two
    frames cannot be noticed. None: the decoder reads it there.
    """
    first = mp3_frame(raw, 0)
    if first is None:
        raise cut_off(where, "it does not begin with a frame")
    at, number = 0, 0
    while (frame := mp3_frame(raw, at)) is not None:
        if frame.rate != first.rate:
            raise cut_off(where, f"frame {number + 1} has {frame.rate} samples a second")
        at, number = at + frame.size, number + 1
    rest = raw[at : at + 16]
    if at > len(raw) or (rest and not rest.startswith(TAGS)):
        raise cut_off(where, f"frame {number + (at <= len(raw))} is cut off or damaged")
    told = _told_frames(raw, first)
    if told is None:
        return number * first.samples
    if told not in (number - 1, number):  # some writers count the frame that tells
        raise cut_off(where, f"it says that it has {told:,} frames, and {number - 1:,} follow")
    return None


def _told_frames(raw: bytes, first: Mp3Frame) -> int | None:
    """The number of frames by the table that writers put into the first one."""
    at = 4 + first.side
    if raw[at : at + 4] not in (b"Xing", b"Info") or not raw[at + 7] & 1:
        return None
    return int.from_bytes(raw[at + 8 : at + 12], "big")


def check_aiff(raw: bytes, where: str) -> int:
    """Check that the samples of an AIFF file are all there; their number for each channel."""
    at, told, sound = 12, None, False
    while at + 8 <= len(raw):
        name, size = raw[at : at + 4], int.from_bytes(raw[at + 4 : at + 8], "big")
        if name in (b"COMM", b"SSND") and at + 8 + size > len(raw):
            there = len(raw) - at - 8
            raise cut_off(
                where, f"{size:,} bytes of {name.decode()} should follow, and {there:,} do"
            )
        if name == b"COMM" and size >= 18:
            told = int.from_bytes(raw[at + 10 : at + 14], "big")
        sound = sound or name == b"SSND"
        at += 8 + size + size % 2
    if told is None or not (sound or told == 0):
        raise cut_off(where, f"its chunk {'SSND' if told is not None else 'COMM'} is missing")
    return told
