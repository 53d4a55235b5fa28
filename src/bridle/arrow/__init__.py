"""Tag and decode Arrow tables: one function for data frames, Spark, Ray and files.

    columns of a batch -> model or scores -> rules -> the same columns, and labels, status and error of each row

`Tag` takes the texts of tokens and has a model; `Decode` takes the scores of your own model.
"""

from bridle.arrow.functions import Decode, Tag

__all__ = ["Decode", "Tag"]
