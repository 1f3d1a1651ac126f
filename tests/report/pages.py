"""What a page says, for tests that read one."""

import re
from html.parser import HTMLParser


class Reader(HTMLParser):
    """What a page says, with its tags checked: every one is closed, and every name is given once."""

    EMPTY = ("meta", "br", "wbr", "hr", "path", "use", "rect", "image", "stop")

    def __init__(self, page):
        super().__init__()
        self.open, self.names, self.links, self.words, self.tags = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(set(self.names)) == len(self.names)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attributes:
            self.names += [value] if name == "id" else []
            self.links += [value] if name in ("href", "src", "xlink:href", "action") else []

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))
