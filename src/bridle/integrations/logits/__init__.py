"""Logits of any network: sub-words become words, windows documents, columns labels. It takes NumPy and nothing else."""

from bridle.integrations.logits.id2label import labels_of
from bridle.integrations.logits.subwords import Back, batch

__all__ = ["Back", "batch", "labels_of"]
