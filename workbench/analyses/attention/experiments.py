"""The experiment `attention-averages`.

Costs: nothing; the code is imported when it is first run.
"""

from pydantic import Field

from workbench.core.findings import plural
from workbench.experiment.definition import HEAD, HEADS, Demo, Experiment, Settings, Table


class Averages(Settings):
    """Settings of `attention-averages`."""

    max_offset: int = Field(
        8, ge=1, le=64, description="Largest relative offset in words (default 8)."
    )

    def in_prose(self) -> str:
        return (
            "We averaged the attention of every head over the words of the corpus (cf. Clark et "
            f"al. 2019), by relative offset up to {plural(self.max_offset, 'word')} and by the "
            "parts of speech of the two words. Attention was summed over the pieces of the "
            "attended word and averaged over those of the attending word; special tokens kept "
            "their share."
        )


TABLES = {
    "offsets": Table(
        "Average attention of a word to the word at `offset` (in words; negative: to the left). "
        "`n`: number of words with a word at that offset.",
        (*HEAD, "offset"),
    ),
    "tags": Table(
        "Average attention (share, 0 to 1) of a word with part of speech `tag` to all words with "
        "part of speech `to_tag`. `n`: number of attending words.",
        (*HEAD, "tag", "to_tag"),
    ),
    "heads": Table(
        "Share of each head's attention to words and to special tokens (0 to 1), and the offset "
        "with the largest average attention. `n`: number of attending words.",
        HEAD,
    ),
}

EXPERIMENT = Experiment(
    name="attention-averages",
    about="Averages every head's attention over a corpus, by relative offset and part of speech.",
    question="Where does each head look, by relative offset and part of speech?",
    subject="Heads",
    settings=Averages,
    run="workbench.analyses.attention.averages:run",
    version=2,
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    split="held-out",
    figures="workbench.analyses.attention.figures:FIGURES",
    findings="workbench.analyses.attention.findings:attention_averages",
    papers=("clark-2019-bert",),
    title="Average attention of",
    demo=Demo(
        "Average attention of each head, by offset and by part of speech",
        models=("mini:bert",),
        settings={"max_sentences": 300},
        order=7,
    ),
)
