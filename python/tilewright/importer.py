"""FX graphs as Graph IR text: operators become `call`, the rest `host`; sizes become expressions.

The importer knows no operator: what a call means is decided by the C++ passes. Python's own steps (higher-order
operators, arithmetic on floats, arguments that the text cannot hold) are kept as callables beside the text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch._higher_order_ops.effects  # defines with_effects
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from tilewright.graph_text import (
    INT64_MAX,
    INT64_MIN,
    Inexpressible,
    TypePrinter,
    expr_text,
    int_expr,
    int_text,
    is_plain_tensor,
    is_size,
    literal_text,
    symbol_name,
    user_location,
)
from tilewright.host_steps import HostStep, node_step, scalar_step

Scalar = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
# Facts for the symbolic shape system, checked while the graph is captured; nothing is left of them at run time.
CAPTURE_ONLY = {
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
}
with_effects = torch.ops.higher_order.with_effects
TOKEN = object()
# The hint of a symbol without a source in the inputs, where its range allows it.
UNBACKED_HINT = 64


@dataclass(frozen=True)
class ImportedGraph:
    """A graph as text. Its parameters are the FX graph's placeholders, then `constants`; its outputs are the FX
    graph's, `outputs` in number, then values that are only written into parameters."""

    text: str
    hosts: tuple[HostStep, ...]
    constants: tuple[Any, ...]
    outputs: int


def import_fx(gm: fx.GraphModule, device: torch.device, name: str = "graph") -> ImportedGraph:
    """`device` is the graph's target: tensors elsewhere say where they are."""
    return Importer(gm, device, name).run()


class Importer:
    def __init__(self, gm: fx.GraphModule, device: torch.device, name: str) -> None:
        self.gm = gm
        self.name = name
        self.types = TypePrinter(device, self.size)
        self.parameters: list[str] = []
        self.constants: list[Any] = []
        self.lines: list[str] = []
        self.hosts: list[HostStep] = []
        self.locations: dict[str, int] = {}  # numbers of the user's lines
        self.places: dict[tuple[str | None, str], int] = {}  # the same, by stack and operator
        # What each FX node's value is in the text: a name, a literal, or lists of them.
        self.values: dict[fx.Node, Any] = {}
        # Size expressions that the text cannot write, by the symbol that a host step gives their value.
        self.named_sizes: dict[sympy.Expr, sympy.Symbol] = {}
        self.symbols: dict[str, sympy.Symbol] = {}
        self.shape_env = find_shape_env(gm)
        self.names = {node.name for node in gm.graph.nodes}
        self.written = written_parameters(gm.graph)
        self.tokens = effect_tokens(gm.graph)

    def run(self) -> ImportedGraph:
        for node in self.gm.graph.nodes:
            self.add(node)
        output = self.gm.graph.output_node()
        results = output.args[0] if isinstance(output.args[0], (list, tuple)) else (output.args[0],)
        returned, types = self.outputs(list(results), output)
        text = self.assemble(returned, types)
        return ImportedGraph(text, tuple(self.hosts), tuple(self.constants), len(results))

    # ---- nodes ----

    def example(self, node: fx.Node) -> Any:
        """The value that capture gave a node. Effect tokens, tensors there, are anything at run time."""
        value: Any = node.meta.get("val")
        if node in self.tokens:
            return TOKEN
        return (TOKEN, *value[1:]) if node.target is with_effects else value

    def add(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self.values[node] = f"%{node.name}"
            self.parameters.append(f"%{node.name}: {self.types.text(self.example(node))}")
        elif node.op == "get_attr":
            self.add_constant(node)
        elif node.op == "output" or node in self.written or node.target in CAPTURE_ONLY:
            pass
        elif node.target is operator.getitem and (parts := self.parts_of(node.args[0])) is not None:
            self.values[node] = parts[node.args[1]]
        elif is_scalar_node(node):
            pass  # written where it is used
        elif isinstance(node.target, torch._ops.OpOverload):
            self.add_call(node)
        else:
            self.add_host(node)

    def parts_of(self, node: Any) -> Any:
        """The named elements of a node that gives several values."""
        parts = self.values.get(node)
        return parts if isinstance(parts, (list, dict)) else None

    def add_constant(self, node: fx.Node) -> None:
        value = attribute(self.gm, str(node.target))
        if isinstance(value, torch.nn.Module):
            return  # the branch of a higher-order operator, which its host step holds
        self.values[node] = f"%{node.name}"
        self.constants.append(value)
        node.meta.setdefault("val", value)

    def add_call(self, node: fx.Node) -> None:
        overload = node.target
        assert isinstance(overload, torch._ops.OpOverload)
        try:
            args = [self.argument(arg, node) for arg in node.args]
            args += [f"{key}={self.argument(arg, node)}" for key, arg in node.kwargs.items()]
        except Inexpressible:
            self.add_host(node)
            return
        self.emit(node, f"call {qualified_name(overload)}", args, has_result=bool(overload._schema.returns))

    def add_host(self, node: fx.Node) -> None:
        step, inputs = node_step(self.gm, node, is_value=lambda n: n in self.values or is_scalar_node(n))
        arguments = [self.value_of(value, node) for value in inputs]
        self.emit(node, f"host {self.add_step(step)}", arguments, has_result=self.example(node) is not None)

    def add_step(self, step: HostStep) -> int:
        self.hosts.append(step)
        return len(self.hosts) - 1

    def emit(self, node: fx.Node, what: str, args: list[str], *, has_result: bool) -> None:
        value = self.example(node) if has_result else None
        flat: list[tuple[str, str]] = []  # result names and types
        if has_result:
            self.values[node] = self.name_results(node, value, node.name, flat)
        results = ", ".join(name for name, _ in flat)
        types = ", ".join(kind for _, kind in flat)
        line = f"{results} = " if flat else ""
        line += f"{what}({', '.join(args)})"
        line += f" : {types}" if flat else ""
        self.lines.append(line + self.location(node))

    def name_results(self, node: fx.Node, value: Any, name: str, flat: list[tuple[str, str]]) -> Any:
        """Names for a result; of a list or dictionary, for each element in the order of `flat_results`."""
        if isinstance(value, dict):
            return {
                key: self.name_results(node, value[key], self.fresh(f"{name}_{i}"), flat)
                for i, key in enumerate(sorted(value))
            }
        if isinstance(value, (list, tuple)):
            return [self.name_results(node, v, self.fresh(f"{name}_{i}"), flat) for i, v in enumerate(value)]
        flat.append((f"%{name}", self.types.text(value, origin=origin_of(node, value))))
        return f"%{name}"

    def fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def location(self, node: fx.Node) -> str:
        key = (node.meta.get("stack_trace"), target_name(node))
        if key not in self.places:
            place = user_location(key[0]).text(key[1])
            self.places[key] = self.locations.setdefault(place, len(self.locations))
        return f" @ {self.places[key]}"

    # ---- arguments ----

    def argument(self, arg: Any, user: fx.Node) -> str:
        if isinstance(arg, fx.Node):
            return self.value_of(arg, user)
        if isinstance(arg, (list, tuple)):
            return f"[{', '.join(self.argument(a, user) for a in arg)}]"
        if isinstance(arg, torch.SymInt):
            return self.size(arg)
        return literal_text(arg)

    def value_of(self, node: fx.Node, user: fx.Node) -> str:
        value = self.values.get(node)
        if isinstance(value, list):
            return f"[{', '.join(flat_names(value))}]"
        if isinstance(value, str):
            return self.known_int(node) or value
        if is_scalar_node(node):
            return self.scalar(node, user)
        raise Inexpressible(f"the value of {node.op} {node.target}")

    def known_int(self, node: fx.Node) -> str | None:
        """An integer's expression in place of its name."""
        value: Any = node.meta.get("val")
        return self.size(value) if is_size(value) else None

    def scalar(self, node: fx.Node, user: fx.Node) -> str:
        """The value of Python arithmetic: an expression for integers, else a host step that does it over."""
        value = node.meta["val"]
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            expr = self.renamed(int_expr(value))
            if not free_floats(expr):
                return self.size(value)
        elif isinstance(value, (int, float)):
            return literal_text(value)
        step, leaves = scalar_step(node, is_leaf=lambda n: n in self.values or is_integer_node(n))
        arguments = [self.value_of(leaf, user) for leaf in leaves]
        number = self.add_step(step)
        if isinstance(value, torch.SymInt):
            self.name_size(int_expr(value))
        kind = self.types.text(value)
        self.values[node] = f"%{node.name}"
        self.lines.append(f"%{node.name} = host {number}({', '.join(arguments)}) : {kind}{self.location(node)}")
        return self.value_of(node, user)

    # ---- sizes ----

    def size(self, value: int | torch.SymInt) -> str:
        if type(value) is int:
            return int_text(value)
        expr = self.renamed(int_expr(value))
        try:
            text = expr_text(expr)
        except Inexpressible:
            text = self.size_by_host(expr)
        self.symbols.update({symbol_name(s): s for s in expr.free_symbols})
        return text

    def renamed(self, expr: sympy.Expr) -> sympy.Expr:
        return expr.xreplace(self.named_sizes) if self.named_sizes else expr

    def name_size(self, expr: sympy.Expr) -> sympy.Symbol:
        symbol = sympy.Symbol(self.fresh(f"size{len(self.named_sizes)}"), integer=True)
        self.named_sizes[expr] = symbol
        return symbol

    def size_by_host(self, expr: sympy.Expr) -> str:
        """A symbol for a size that only Python can compute, bound by a host step before its first use."""
        inputs = sorted(expr.free_symbols, key=str)
        symbol = self.name_size(expr)

        def evaluate(*values: int) -> tuple[int]:
            return (int(sympy_interp(PythonReferenceAnalysis, dict(zip(inputs, values, strict=True)), expr)),)

        number = self.add_step(HostStep(f"size {expr}", evaluate))
        self.symbols.update({symbol_name(s): s for s in (*inputs, symbol)})
        arguments = ", ".join(map(symbol_name, inputs))
        self.lines.append(f"%{symbol} = host {number}({arguments}) : int = {symbol}")
        return str(symbol)

    def symbol_text(self, symbol: sympy.Symbol) -> str:
        env = self.shape_env
        bounds = env.var_to_range.get(symbol) if env is not None else None
        lower, upper = (clamped(bounds.lower), clamped(bounds.upper)) if bounds is not None else (INT64_MIN, INT64_MAX)
        hint = known_hint(env, symbol)
        guess = max(lower, min(UNBACKED_HINT, upper))
        top = "inf" if upper == INT64_MAX else upper
        text = f"{symbol_name(symbol)} = {guess if hint is None else hint} in [{lower}, {top}]"
        if (divisor := known_divisor(env, symbol)) > 1:
            text += f" div {divisor}"
        return text + (" unbacked" if hint is None else "")

    # ---- the whole ----

    def outputs(self, results: list[Any], output: fx.Node) -> tuple[list[str], list[str]]:
        texts, types, seen = [], [], set()
        for result in results:
            if isinstance(result, fx.Node) and result in self.written:
                parameter, source = self.written[result]
                into = f"{self.value_of(source, output)} -> into %{parameter.name}"
                texts.append(f"%{parameter.name}" if result in seen else into)
                seen.add(result)
            else:
                texts.append(self.argument(result, output))
            value = self.example(result) if isinstance(result, fx.Node) else result
            types.append(self.types.text(value))
        for copy, (parameter, source) in self.written.items():
            if copy not in seen:
                texts.append(f"{self.value_of(source, output)} -> into %{parameter.name}")
                types.append(self.types.text(parameter.meta["val"]))
        return texts, types

    def assemble(self, returned: list[str], types: list[str]) -> str:
        for node, constant in zip(self.constant_nodes(), self.constants, strict=True):
            self.parameters.append(f"%{node.name}: {self.types.text(constant)}")
        symbols = [self.symbol_text(self.symbols[name]) for name in sorted(self.symbols, key=natural_key)]
        head = f"graph @{self.name}({', '.join(self.parameters)}) -> ({', '.join(types)})\n"
        if symbols:
            head += f"  symbols ({', '.join(symbols)})\n"
        body = "".join(f"  {line}\n" for line in self.lines)
        tail = f"  return {', '.join(returned)}\n" if returned else "  return\n"
        table = "".join(f"loc {number} = {place}\n" for place, number in self.locations.items())
        return f"{head}{{\n{body}{tail}}}\n{table}"

    def constant_nodes(self) -> list[fx.Node]:
        return [n for n in self.gm.graph.nodes if n.op == "get_attr" and n in self.values]


# ---- effects ----


def effect_tokens(graph: fx.Graph) -> set[fx.Node]:
    """Values that keep operators with effects in order: first argument and first result of `with_effects`."""
    tokens: set[fx.Node] = set()
    for node in graph.nodes:
        if node.target is with_effects:
            tokens |= {token for token in node.args[:1] if isinstance(token, fx.Node)}
            tokens |= {user for user in node.users if user.target is operator.getitem and user.args[1] == 0}
    return tokens


# ---- mutation ----


def written_parameters(graph: fx.Graph) -> dict[fx.Node, tuple[fx.Node, fx.Node]]:
    """The `copy_` nodes that write a result into a parameter after everything that reads it, with parameter and
    result. Empty where one of the graph's copies is of another kind: then their order matters, and they stay calls."""
    found: dict[fx.Node, tuple[fx.Node, fx.Node]] = {}
    read_later: set[int | None] = set()
    for node in reversed(graph.nodes):
        if node.target is torch.ops.aten.copy_.default:
            parameter, source = node.args[0], node.args[1]
            if not writes_whole(parameter, source) or storage_of(parameter) in read_later:
                return {}
            found[node] = (parameter, source)
        if node.op != "output":
            read_later.update(storage_of(operand) for operand in node.all_input_nodes)
    return dict(reversed(found.items()))


def writes_whole(parameter: Any, source: Any) -> bool:
    if not (isinstance(parameter, fx.Node) and parameter.op == "placeholder" and isinstance(source, fx.Node)):
        return False
    old, new = parameter.meta.get("val"), source.meta.get("val")
    return (
        is_plain_tensor(old)
        and is_plain_tensor(new)
        and (old.dtype, old.device) == (new.dtype, new.device)
        and [int_expr(s) for s in old.shape] == [int_expr(s) for s in new.shape]
        and storage_of(parameter) != storage_of(source)
    )


def storage_of(node: Any) -> int | None:
    return storage_id(node.meta.get("val"))


def storage_id(value: Any) -> int | None:
    return value.untyped_storage()._cdata if is_plain_tensor(value) else None


def origin_of(node: fx.Node, value: Any) -> Any:
    """Where offsets of a result of `node` count from: the first element of the parameter whose memory it views, which
    may lie elsewhere in its storage when the graph runs, else the storage's begin."""
    while node.args and isinstance(base := node.args[0], fx.Node):
        if node.target is not operator.getitem and storage_of(base) not in (None, storage_id(value)):
            return 0
        node = base
    seen: Any = node.meta.get("val")
    is_viewed = node.op in ("placeholder", "get_attr") and storage_id(seen) == storage_id(value) is not None
    return seen.storage_offset() if is_viewed else 0


# ---- facts of nodes and symbols ----


def is_scalar_node(node: fx.Node) -> bool:
    """A node of Python's arithmetic (or of a tensor's sizes): all that it gives is a number."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Scalar):
        return False
    if isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return getattr(node.target, "overloadpacket", node.target) in SIZE_QUERIES
    return not isinstance(node.target, torch._ops.HigherOrderOperator) and all(
        isinstance(source.meta.get("val"), Scalar) for source in node.all_input_nodes
    )


SIZE_QUERIES = {
    torch.ops.aten.sym_size,
    torch.ops.aten.sym_stride,
    torch.ops.aten.sym_numel,
    torch.ops.aten.sym_storage_offset,
}


def is_integer_node(node: fx.Node) -> bool:
    value: Any = node.meta.get("val")
    return is_size(value) and not free_floats(int_expr(value))


def free_floats(expr: sympy.Expr) -> bool:
    return any(not s.is_integer for s in expr.free_symbols)


def qualified_name(overload: torch._ops.OpOverload) -> str:
    return f"{overload.namespace}.{overload._schema.name.split('::')[1]}.{overload._overloadname}"


def target_name(node: fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        return qualified_name(node.target)
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "step")
    return "python." + (re.sub(r"\W", "_", name) or "step")


def attribute(gm: fx.GraphModule, target: str) -> Any:
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    return value


def flat_names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for v in value:
            yield from flat_names(v)
    else:
        yield value


def natural_key(name: str) -> tuple[str, int]:
    word, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
    return word, int(digits or -1)


def find_shape_env(gm: fx.GraphModule) -> Any:
    for node in gm.graph.nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and (mode := getattr(value, "fake_mode", None)) is not None:
                return mode.shape_env
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return value.node.shape_env
    return None


def clamped(bound: sympy.Expr) -> int:
    if not bound.is_finite or not isinstance(bound, sympy.Integer):
        return INT64_MAX if bound.is_extended_positive else INT64_MIN
    return max(INT64_MIN, min(INT64_MAX, int(bound)))


def known_hint(env: Any, symbol: sympy.Symbol) -> int | None:
    if env is None:
        return None
    hints = getattr(env, "backed_var_to_val", None)
    hint = (env.var_to_val if hints is None else hints).get(symbol)
    return None if hint is None else int(hint)


def known_divisor(env: Any, symbol: sympy.Symbol) -> int:
    """The largest k of the facts `symbol % k == 0` that Dynamo guards."""
    divisor = 1
    for fact in env.divisible if env is not None else ():
        if fact.args[0] == symbol and isinstance(fact.args[1], sympy.Integer):
            divisor = sympy.ilcm(divisor, int(fact.args[1]))
    return int(divisor)
