"""The long description of a package: README.md without links to files, which a package index does not have."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)")


class Readme(MetadataHookInterface):
    """Sets the long description."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text of README.md into the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
