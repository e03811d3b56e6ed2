"""Tilewright: a compiler back end for PyTorch. `torch.compile(model, backend="tilewright")` needs no import."""
