"""The one room where texts become labels.

    Block --tag(block, model, decoder)--> Outcomes

A `Block` is some sequences: packed columns of text, or scores. `Outcomes` are their labellings; a sequence that cannot
be labelled has an error there, and the others are not touched. Readers of files, Arrow tables, the HTTP service and all
other adapters make blocks and write outcomes; what happens in between is here.
"""

from bridle.tagging.block import Block, Column
from bridle.tagging.labelling import Outcomes, tag

__all__ = ["Block", "Column", "Outcomes", "tag"]
