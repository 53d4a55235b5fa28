"""ONNX Runtime sessions, and functions that give logits, in the place of a model of transformers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from bridle.errors import LatticeError, ModelError
from bridle.extras import needed
from bridle.integrations.logits.subwords import as_logits

INTEGERS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}


class LogitsModel:
    """What a pipeline asks of a model, around something that computes logits on the CPU."""

    input_modalities = ("text",)

    def __init__(self, logits: Callable[..., Any]) -> None:
        self.logits, self.config = logits, SimpleNamespace(id2label=None)
        self.device = needed("torch", "transformers", "a pipeline of transformers needs torch").device("cpu")

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Compute the logits of a batch of windows."""
        torch = needed("torch", "transformers", "a pipeline of transformers needs torch")
        found = as_logits(self.logits(**{name: tensor.numpy() for name, tensor in inputs.items()}))
        asked = tuple(inputs["input_ids"].shape)
        if found.ndim != 3 or found.shape[:2] != asked:
            raise LatticeError(
                "the model gives logits of a wrong shape",
                got=found.shape,
                wanted=f"({asked[0]}, {asked[1]}, labels), as input_ids are {asked}",
                cause="A function must return logits of all tokens of all texts, special ones and padding included.",
            )
        return {"logits": torch.from_numpy(np.array(found))}

    def can_generate(self) -> bool:
        """It does not make text."""
        return False


def session_logits(session: Any) -> Callable[..., Any]:
    """A function of input_ids, attention_mask, ... that runs an ONNX Runtime session.

    It passes what the graph has inputs for, in the type that it wants, and returns the output that is called "logits",
    or else the first one.
    """
    wanted = {entry.name: INTEGERS.get(entry.type) for entry in session.get_inputs()}
    outputs = [entry.name for entry in session.get_outputs()]
    output = "logits" if "logits" in outputs else outputs[0]

    def logits(**inputs: Any) -> Any:
        missing = sorted(wanted.keys() - inputs.keys())
        if missing:
            raise ModelError(
                "the ONNX graph has inputs that the tokenizer does not make",
                got=", ".join(missing),
                wanted=f"some of {', '.join(sorted(inputs))}",
                cause="Export the model with the names that its tokenizer uses, such as input_ids.",
            )
        feeds = {name: inputs[name].astype(kind or inputs[name].dtype) for name, kind in wanted.items()}
        return session.run([output], feeds)[0]

    return logits


def as_model(model: Any) -> Any:
    """A model of transformers as it is; sessions and functions with what a pipeline needs around them."""
    if hasattr(model, "config"):
        return model
    if hasattr(model, "run") and hasattr(model, "get_inputs"):
        return LogitsModel(session_logits(model))
    if callable(model):
        return LogitsModel(model)
    raise ModelError(
        "not a model",
        got=type(model).__name__,
        wanted="a model of transformers, an onnxruntime.InferenceSession, or a function that gives logits",
    )
