"""Files at full speed: batches of rows in, shards and a manifest out, and a way to go on after a stop."""

from bridle.bulk.progress import Progress
from bridle.bulk.rows import checksum
from bridle.bulk.run import RunResult, check, tag_files
from bridle.bulk.shards import ShardSize

__all__ = ["Progress", "RunResult", "ShardSize", "check", "checksum", "tag_files"]
