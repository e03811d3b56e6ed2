"""What the documents list is what there is: options, commands, pages, folders."""

import dataclasses
import re
import subprocess
from pathlib import Path

from tilewright.options import Options

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_readme_lists_every_option() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| `(TILEWRIGHT_\w+)` \|", README, re.MULTILINE))
    assert listed == {field.name: field.metadata["env"] for field in dataclasses.fields(Options)}


def test_readme_links_every_page() -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(re.findall(r"\]\(([^)]+)\)", README))


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links {link}"


def test_commands_of_dev() -> None:
    usage = subprocess.run([ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  (\w+) ", usage, re.MULTILINE))
    assert commands == set(re.findall(r"^\| `\./dev (\w+)", (ROOT / "docs/development.md").read_text(), re.MULTILINE))


def test_architecture_names_the_folders() -> None:
    layers = (ROOT / "docs/architecture.md").read_text().split("## Layers")[1].split("## ")[0]
    rows = re.findall(r"^\| (\d) \| (.*) \|$", layers, re.MULTILINE)
    named = {folder for _, row in rows for folder in re.findall(r"(?:^| · )`(\w+)`", row)}
    built = {folder.name for folder in (ROOT / "csrc").iterdir() if folder.name != "cmake"}
    assert named == built
