"""Tilewright: a compiler back end for PyTorch. `torch.compile(model, backend="tilewright")` needs no import."""

from tilewright._version_check import require_matching_build

require_matching_build()
