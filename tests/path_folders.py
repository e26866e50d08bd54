"""Folders and links for tests of paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import Reading, Where

__all__ = ["Folders", "make_folders"]


@dataclass(frozen=True)
class Folders:
    """A base folder with files and links, a home folder, and a folder outside of both."""

    top: Path

    @property
    def base(self) -> Path:
        return self.top / "base"

    def where(self, **changes: Any) -> Where:
        given = {"folder": str(self.base), "home": str(self.top / "home"), "windows": False, "links": {}, **changes}
        return Where(**given)

    def named(self, text: str) -> str:
        """Return a text with the real folders in it: ``{top}``, ``{base}``, ``{home}``."""
        for name, path in [("top", self.top), ("base", self.base), ("home", self.top / "home")]:
            text = text.replace(f"{{{name}}}", str(path))
        return text

    def read(self, pattern: str, value: Any, **changes: Any) -> Reading:
        value = self.named(value) if isinstance(value, str) else value
        return PathPattern(self.named(pattern)).read(value, self.where(**changes))

    def denied(self, pattern: str, value: Any, **changes: Any) -> bool:
        return self.read(pattern, value, **changes).wide

    def allowed(self, pattern: str, value: Any, **changes: Any) -> bool:
        return self.read(pattern, value, **changes).narrow


FILES = [
    "base/notes.txt", "base/.env", "base/project/a.txt", "base/project/.env", "base/project/.hidden/x.txt",
    "base/project/sub/deep.txt", "base/project/with blank.txt", "base/project/100%.txt", "base/project/ünï.txt",
    "base/project/[id].tsx", "base/secret/key.txt", "base/secret/inner/deep.key", "base/projects/b.txt",
    "home/.ssh/id_rsa", "home/notes.txt", "outside/x.txt", "outside/.env",
]  # fmt: skip

LINKS = {
    "base/project/in": "sub",
    "base/project/out": "../secret",
    "base/project/absolute": "{base}/secret",
    "base/project/out.txt": "../secret/key.txt",
    "base/project/in.txt": "a.txt",
    "base/project/chain": "chain2",
    "base/project/chain2": "chain3",
    "base/project/chain3": "../secret",
    "base/project/loop": "loop2",
    "base/project/loop2": "loop",
    "base/project/itself": "itself",
    "base/project/up": "..",
    "base/project/top": "/",
    "base/project/broken": "nowhere",
    "base/project/broken_out": "../secret/new.txt",
    "base/project/outside": "{top}/outside",
    "base/project/through": "../secret/back",
    "base/secret/back": "../project/a.txt",
    "base/secret/door": "../../outside",
    "base/alias": "project",
    "base/conf": "project/.env",
    "base_link": "base",
    "home/job": "{base}",
}


def make_folders(top: Path) -> Folders:
    """Make the folders below a folder."""
    folders = Folders(top)
    for file in FILES:
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_text(file)
    for link, target in LINKS.items():
        (top / link).symlink_to(folders.named(target))
    return folders
