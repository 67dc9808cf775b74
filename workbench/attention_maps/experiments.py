"""What can be asked of attention maps: the experiment `attention-averages`.

Costs nothing; the code is imported when it is first run.
"""

from pydantic import Field

from workbench.core.experiment import HEAD, HEADS, Experiment, Settings, Table


class Averages(Settings):
    """What is averaged."""

    farthest: int = Field(8, ge=1, le=64, description="Offsets are told up to so many words away.")


TABLES = {
    "offsets": Table(
        "Average attention of a word to the word so far to its right (left: negative), where there "
        "is one; `n` words have one.",
        (*HEAD, "offset"),
    ),
    "tags": Table(
        "How much attention a word of the one part of speech gives, in all, to words of the other; "
        "`n` words look.",
        (*HEAD, "tag", "to_tag"),
    ),
    "heads": Table(
        "How much of each head's attention stays with words, and how much goes to special tokens.",
        HEAD,
    ),
}

EXPERIMENT = Experiment(
    name="attention-averages",
    about="What every head's attention comes to over a corpus, by relative offset and by tags.",
    settings=Averages,
    run="workbench.attention_maps.averages:run",
    version=2,
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    split="held-out",
    figures="workbench.figures.averages:FIGURES",
)
