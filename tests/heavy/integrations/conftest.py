"""Settings for the tests beside other systems: nothing is fetched from a hub."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
