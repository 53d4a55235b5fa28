"""Ray: tag datasets with a pool of actors, and go on after a crash.

    import ray
    from bridle.integrations.ray import run, tag

    tagged = tag(ray.data.read_parquet("refs"), "refs.bridle", rules, actors=2)   # a dataset
    run("refs", "tagged", "refs.bridle", rules, id_column="id")                    # files, resumable and checked

`pool` has the actors and Ray's checkpoints, `files` the run from Parquet files to Parquet files, `ledger` and `counts`
what lies in the folders of such a run.
"""

from bridle.integrations.ray.files import RunSummary, run
from bridle.integrations.ray.pool import tag

__all__ = ["RunSummary", "run", "tag"]
