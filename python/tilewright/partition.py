"""Which values of a training graph's forward are saved for backward, and which are computed again there."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition


def partition(
    joint: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **kwargs: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """PyTorch's min-cut, which obeys checkpoint tags and `activation_memory_budget`."""
    return min_cut_rematerialization_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **kwargs)
