"""Files at full speed: shards and a manifest out, and a way to go on after a stop."""

from bridle.runs.counts import RunResult, checksum
from bridle.runs.files import ShardSize, check, tag_files
from bridle.runs.run import Progress

__all__ = ["Progress", "RunResult", "ShardSize", "check", "checksum", "tag_files"]
