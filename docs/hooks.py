"""What MkDocs is told besides mkdocs.yml: pages that are no files of docs/, and links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from legalsat.view.show_rules import INDEX, families, pages, title

_ROOT = Path(__file__).parents[1]
# Files of the repository's root that are pages of the site.
_FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_RULES, _REFERENCE = "rules", "reference"
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<to>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """Make the navigation: the README, files of docs/, rules by family, the project's own pages."""
    rules: list[Any] = [f"{_RULES}/{INDEX}"]
    rules += [
        {family.title: [{title(rule): f"{_RULES}/{rule.code}.md"} for rule in family.rules]}
        for family in families()
    ]
    guides = sorted(path.name for path in Path(config.docs_dir).glob("*.md"))
    first, *rest = _FROM_ROOT.values()
    index = (Path(config.docs_dir) / _REFERENCE / INDEX).read_text(encoding="utf-8")
    reference = [INDEX, *re.findall(r"\((\w+\.md)\)", index)]
    config.nav = [
        first,
        {"Guides": guides},
        {"Reference": [f"{_REFERENCE}/{name}" for name in reference]},
        {"Rules": rules},
        {"Project": rest},
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of rules and those of the repository's root."""
    for name, text in pages().items():
        files.append(File.generated(config, f"{_RULES}/{name}", content=text))
    for name, address in _FROM_ROOT.items():
        files.append(
            File.generated(config, address, content=(_ROOT / name).read_text(encoding="utf-8"))
        )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to files of the repository lead to their pages; without a page they become text."""
    source = {address: name for name, address in _FROM_ROOT.items()}.get(page.file.src_uri)
    if source is None and page.file.src_uri.startswith(f"{_RULES}/"):
        return markdown
    here = "." if source else posixpath.dirname(f"docs/{page.file.src_uri}")

    def lead(match: re.Match[str]) -> str:
        there = posixpath.normpath(posixpath.join(here, match["to"]))
        address = _FROM_ROOT.get(
            there, there.removeprefix("docs/") if there.startswith("docs/") else None
        )
        if address is not None:
            way = posixpath.relpath(address, posixpath.dirname(page.file.src_uri) or ".")
            return f"[{match['text']}]({way}{match['anchor'] or ''})"
        return f"`{match['text']}`" if (_ROOT / there).exists() else match[0]

    return _LINK.sub(lead, markdown)
