"""Which values of a training graph's forward are saved for backward, and which are computed again there.

PyTorch's min-cut decides, with its checkpoint tags and `activation_memory_budget`; it knows operators as decompositions
leave them. Ours arrive whole, so those that a fused kernel regenerates on the way are shown to it as what they are to
us: norms and softmax as pointwise work, `transpose` as a view.
"""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import OpTypes, get_default_op_list, min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._prims import rng_prims

aten = torch.ops.aten

# Regenerated cheaply: one pass over an input that backward reads anyway. Batch norm is not here: its statistics need
# the whole batch before the first result.
REGENERATED = (
    "native_layer_norm.default",
    "_fused_rms_norm.default",
    "_softmax.default",
    "_safe_softmax.default",
    "_log_softmax.default",
    "glu.default",
    "constant_pad_nd.default",
)
# Backwards that a kernel joins with what regenerates their operands.
FUSED_BACKWARDS = (
    "native_layer_norm_backward.default",
    "_fused_rms_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "nll_loss_backward.default",
    "native_dropout_backward.default",
)
VIEWS = ("transpose.int", "unbind.int", "diagonal.default", "detach.default", "split_with_sizes.default")


class StandIn:
    """An operator that the partitioner takes for one of another family."""

    def __init__(self, op: Any, shown_as: Any) -> None:
        self.op = op
        self.overloadpacket = shown_as
        self.__name__ = f"stand_in_{str(op).replace('.', '_')}"
        self.__module__ = __name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)


def overload(name: str) -> Any:
    """`aten.name.overload`, or None where this PyTorch has no such operator."""
    packet, _, kind = name.partition(".")
    return getattr(getattr(aten, packet, None), kind, None)


def stand_ins(names: tuple[str, ...], shown_as: Any) -> dict[Any, StandIn]:
    return {op: StandIn(op, shown_as) for name in names if (op := overload(name)) is not None}


REGENERATED_STAND_INS = stand_ins(REGENERATED, aten.add)
OTHER_STAND_INS = stand_ins(FUSED_BACKWARDS, aten.add) | stand_ins(VIEWS, aten.permute)


def partition(
    joint: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **kwargs: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Splits the joint graph; what the min-cut is told of operators does not outlive the call."""
    for node in joint.graph.nodes:
        node.target = OTHER_STAND_INS.get(node.target, node.target)
    known = get_default_op_list()
    for node in joint.graph.nodes:
        if node.target in REGENERATED_STAND_INS and not is_written_for_backward(node, known):
            node.target = REGENERATED_STAND_INS[node.target]
    parts = min_cut_rematerialization_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **kwargs)
    for module in (joint, *parts):
        restore_operators(module)
        add_drawn_values(module)
    return parts


def add_drawn_values(module: fx.GraphModule) -> None:
    """Gives example values to operators that draw random numbers again in backward, which PyTorch's partitioner wraps
    and leaves without."""
    for node in module.graph.nodes:
        if node.target is rng_prims.run_and_save_rng_state:
            node.meta.setdefault("val", tuple(user.meta["val"] for user in sorted(node.users, key=lambda u: u.args[1])))
        elif node.target in (rng_prims.run_with_rng_state, rng_prims.graphsafe_run_with_rng_state):
            node.meta.setdefault("val", drawn_value(node))


def drawn_value(node: fx.Node) -> Any:
    at = next(i for i, arg in enumerate(node.args) if isinstance(arg, torch._ops.OpOverload))
    named = {name: arg for name, arg in node.kwargs.items() if name != "rng_state"}
    args, kwargs = fx.node.map_arg((node.args[at + 1 :], named), lambda n: n.meta["val"])
    draw: Any = node.args[at]
    with detect_fake_mode() or nullcontext():
        return draw(*args, **kwargs)


def is_written_for_backward(node: fx.Node, known: OpTypes) -> bool:
    """Whether backward reads the node's (first) result from memory, as a matrix product does: then regenerating it
    would write it again, and saving what forward writes anyway costs no time."""
    pending = [node]
    while pending:
        for user in pending.pop().users:
            if user.target is operator.getitem:
                pending += [user] if user.args[1] == 0 else []
            elif known.is_view(user):
                pending.append(user)
            elif user.meta.get("partitioner_tag") == "is_backward" and not known.is_fusible(user):
                return True
    return False


def restore_operators(module: fx.GraphModule) -> None:
    for node in module.graph.nodes:
        if isinstance(node.target, StandIn):
            node.target = node.target.op
    module.recompile()
