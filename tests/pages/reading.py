"""A strict reading of pages, for their tests."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
from PIL import Image

VOID = {"meta", "img", "source", "br", "input", "wbr"}


class Page(HTMLParser):
    """Tags, attributes and text of a page in which every element is closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if self.open and self.open[-1] == "td":
            self.cells.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def values(self, name: str, tag: str = "") -> list[str]:
        """Values of an attribute, of every tag or of one."""
        return [v for where, key, v in self.attributes if key == name and tag in ("", where)]

    def addresses(self) -> list[str]:
        """Everything that a browser would load."""
        found = [a for name in ("src", "srcset") for a in self.values(name)]
        found += self.values("href", "image")
        return found + [
            a for style in self.values("style") for a in re.findall(r"url\(([^)]*)\)", style)
        ]


def tables(text: str) -> list[list[list[str]]]:
    """Every table of a page, as its rows of cells."""
    return [
        [
            re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.S)
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)
        ]
        for table in re.findall(r"<table.*?</table>", text, re.S)
    ]


def content(address: str) -> bytes:
    """What a data address holds."""
    return base64.b64decode(address.partition(",")[2])


def pixels(address: str, mode: str = "RGB") -> np.ndarray:
    """The image of a data address."""
    return np.asarray(Image.open(io.BytesIO(content(address))).convert(mode))
