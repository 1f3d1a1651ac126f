"""Lines of pure code, without docstrings, comments and blank lines: ``python tests/pure_lines.py src/armtriage``."""

import ast
import io
import sys
import tokenize
from pathlib import Path

_NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def pure_lines(text: str) -> int:
    """Return how many lines have code: a string that stands alone is documentation."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for one in tokens if one.type not in _NOT_CODE for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        rooms: dict[str, int] = {}
        for path in sorted(folder.rglob("*.py")):
            room = path.relative_to(folder).parts[0]
            rooms[room] = rooms.get(room, 0) + pure_lines(path.read_text())
        for room, count in sorted(rooms.items(), key=lambda one: -one[1]):
            print(f"{count:7,} {room}")
        print(f"{sum(rooms.values()):7,} {folder}")
