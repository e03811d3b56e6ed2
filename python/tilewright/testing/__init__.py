"""Tests' own tools: graphs as text run on the simulator, and everything a user can see of two runs compared."""

from tilewright.testing.text_runs import DTYPES, TextRun, compile_text, make_inputs, run_text

__all__ = ["DTYPES", "TextRun", "compile_text", "make_inputs", "run_text"]
