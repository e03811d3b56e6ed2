"""Host steps: the pieces of a captured graph that only Python can run, as callables over positional arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx


@dataclass(frozen=True)
class HostStep:
    """Called with the values of the step's arguments; returns its results, flat and in order."""

    name: str
    run: Callable[..., tuple[Any, ...]]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.run(*args)


def node_step(gm: fx.GraphModule, node: fx.Node, is_value: Callable[[fx.Node], bool]) -> tuple[HostStep, list[fx.Node]]:
    """One node with its constants and subgraphs, as a function of the values that it reads."""
    inputs = [source for source in node.all_input_nodes if is_value(source)]
    captured = {source: attribute_of(gm, source) for source in node.all_input_nodes if source not in inputs}

    def run(*values: Any) -> tuple[Any, ...]:
        env = {**captured, **dict(zip(inputs, values, strict=True))}
        return flat_results(execute(node, env))

    return HostStep(node.name, run), inputs


def scalar_step(node: fx.Node, is_leaf: Callable[[fx.Node], bool]) -> tuple[HostStep, list[fx.Node]]:
    """Python's arithmetic from the leaves to `node`, done in the program's order, so that floats round as eager's."""
    program: list[fx.Node] = []
    leaves: list[fx.Node] = []

    def visit(n: fx.Node) -> None:
        if n in program or n in leaves:
            return
        if n is not node and is_leaf(n):
            leaves.append(n)
            return
        for source in n.all_input_nodes:
            visit(source)
        program.append(n)

    visit(node)

    def run(*values: Any) -> tuple[Any, ...]:
        env = dict(zip(leaves, values, strict=True))
        for n in program:
            env[n] = execute(n, env)
        return (env[node],)

    return HostStep(node.name, run), leaves


def execute(node: fx.Node, env: dict[fx.Node, Any]) -> Any:
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda n: env[n])
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target), f"{node.op} {node.target} is no function"
    return node.target(*args, **kwargs)


def attribute_of(gm: fx.GraphModule, node: fx.Node) -> Any:
    assert node.op == "get_attr", f"{node.name} has no value here"
    value: Any = gm
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def flat_results(value: Any) -> tuple[Any, ...]:
    """The elements of lists in order and of dictionaries by key, as the importer names them."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return tuple(leaf for element in value for leaf in flat_results(element))
    return (value,)
