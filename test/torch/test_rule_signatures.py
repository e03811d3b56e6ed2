"""The heads of the rules of `decompose` name PyTorch's parameters as its schemas do, in order, with their defaults."""

import math
import re
from pathlib import Path

import pytest
import torch
import torch._inductor.inductor_prims  # defines some of prims

RULES = Path(__file__).resolve().parents[2] / "csrc" / "passes" / "rules"
HEAD = re.compile(r"^rule ([\w.| ]+?)\s*\((.*?)\)\s*(?::|when|=>|\{|$)", re.MULTILINE)
NO_DEFAULT = object()


def heads():
    for path in sorted(RULES.glob("*.tw")):
        for match in HEAD.finditer(path.read_text()):
            for name in match.group(1).split("|"):
                yield pytest.param(name.strip(), match.group(2), id=f"{path.stem}-{name.strip()}")


def split_parameters(text):
    parameters, depth, current = [], 0, ""
    for c in text + ",":
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            if current.strip():
                parameters.append(current.strip())
            current = ""
        else:
            current += c
    return parameters


def parse_default(text):
    values = {"none": None, "true": True, "false": False, "inf": math.inf, "[]": []}
    if text in values:
        return values[text]
    if text.startswith('"'):
        return text.strip('"')
    return float(text)


@pytest.mark.parametrize("name, parameters", list(heads()))
def test_head_is_the_schema(name, parameters):
    namespace, op, overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    if packet is None and namespace == "prims":
        pytest.skip("this PyTorch has no such operator")
    schema = getattr(packet, overload)._schema
    found = []
    for p in split_parameters(parameters):
        head, _, default = p.partition("=")
        found.append(
            (head.split(":")[0].strip().lstrip("%"), parse_default(default.strip()) if default else NO_DEFAULT)
        )
    expected = [(a.name, a.default_value if a.has_default_value() else NO_DEFAULT) for a in schema.arguments]
    # A rule may serve operators of one shape: it may give a default where the schema has none.
    for (name, default), (found_name, found_default) in zip(expected, found, strict=False):
        assert found_name == name
        if default is not NO_DEFAULT:
            assert found_default == default, name
    assert len(found) >= len(expected)
