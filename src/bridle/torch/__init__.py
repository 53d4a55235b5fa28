"""An exact layer for PyTorch: conditional random fields whose likelihood knows rules (``bridle-nlp[torch]``)."""

from bridle.extras import needed

needed("torch", "torch", "bridle.torch needs PyTorch")

from bridle.torch.crf import ConstrainedCRF  # noqa: E402
from bridle.torch.sums import Posterior  # noqa: E402

__all__ = ["ConstrainedCRF", "Posterior"]
