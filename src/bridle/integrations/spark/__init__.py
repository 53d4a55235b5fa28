"""Apache Spark: data frames and streams of files, labelled on all machines of a cluster.

    from bridle.integrations.spark import tag

    tagged = tag(spark.read.parquet("references"), "refs.bridle", "my.rules", id_column="id")
    tagged.write.parquet("tagged")

`tag` is one `mapInArrow` with a `bridle.arrow.Tag`. `tag_stream` reads a folder of files with a checkpoint, so that a
job that was killed goes on where it was.
"""

from bridle.integrations.spark.streaming import remove_orphans, tag_stream
from bridle.integrations.spark.tagging import tag

__all__ = ["remove_orphans", "tag", "tag_stream"]
