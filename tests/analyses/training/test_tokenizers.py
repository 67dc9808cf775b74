"""Tokenizers trained here load anywhere, cut the same, and are the same for the same text."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoTokenizer

from tests.analyses.training.texts import WORDS, paragraphs, tokenizer
from tests.night import mostly
from workbench import WorkbenchError
from workbench.analyses.training.elmo import count_words, spell, word_tokenizer
from workbench.analyses.training.tokenizers import (
    LAYOUTS,
    Algorithm,
    Layout,
    save_tokenizer,
    train_tokenizer,
)
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.models.bilm import MARKS, read_words, save_words
from workbench.models.elmo import character_ids

ALGORITHMS = ("bpe", "wordpiece", "unigram")
every_kind = pytest.mark.parametrize(
    ("algorithm", "layout"),
    mostly(
        [(a, layout) for a in ALGORITHMS for layout in LAYOUTS],
        ("bpe", "gpt"), ("bpe", "roberta"), ("wordpiece", "bert"), ("unigram", "t5"),
    ),
)  # fmt: skip
TEXTS = ["The cat sees a dog.", "", "Ünïcode — naïve 日本語 🙂\n\ttab", "[MASK] <mask> x <pad>"]


@every_kind
def test_a_saved_tokenizer_loads_and_cuts_the_same(
    algorithm: Algorithm, layout: Layout, tmp_path: Path
) -> None:
    trained = train_tokenizer(paragraphs(300), algorithm, layout, 400, max_length=99)
    save_tokenizer(trained, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert len(loaded) == len(trained) == 400
    assert loaded.model_max_length == 99
    assert loaded.special_tokens_map == trained.special_tokens_map
    assert loaded.backend_tokenizer.to_str() == trained.backend_tokenizer.to_str()
    for pair in (None, TEXTS[::-1]):
        assert dict(loaded(TEXTS, pair)) == dict(trained(TEXTS, pair))
    marks = LAYOUTS[layout]
    names = list(dict.fromkeys(marks.tokens.values()))
    assert loaded.convert_tokens_to_ids(names) == list(range(len(names)))
    for part, name in marks.tokens.items():
        assert getattr(loaded, part) == name
    assert ("token_type_ids" in loaded("a")) == marks.segments


MODELS = {"bert": "bert", "gpt2": "gpt", "t5": "t5", "bart": "roberta", "roberta": "roberta"} | {
    "electra": "bert",
    "albert": "bert",
    "distilbert": "bert",
}


@pytest.mark.parametrize(
    ("family", "algorithm"),
    mostly(
        [(family, algorithm) for family in MODELS for algorithm in ALGORITHMS],
        ("bert", "wordpiece"), ("gpt2", "bpe"), ("t5", "unigram"), ("bart", "bpe"),
    ),
)  # fmt: skip
def test_a_models_configuration_beside_it_changes_nothing(
    family: str, algorithm: Algorithm, tmp_path: Path
) -> None:
    trained = tokenizer(algorithm, MODELS[family])  # type: ignore[arg-type]
    save_tokenizer(trained, tmp_path)
    AutoConfig.for_model(family).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert dict(loaded(TEXTS)) == dict(trained(TEXTS))


PROGRAM = """
import hashlib, sys
from tests.analyses.training.texts import paragraphs
from workbench.analyses.training.tokenizers import train_tokenizer
for algorithm in ("bpe", "wordpiece", "unigram"):
    lines = ["Ångström: rare signs, é ß Q Z X 7 9 & %", *paragraphs(100)]
    made = train_tokenizer(iter(lines), algorithm, "bert", 160 + 200 * (algorithm == "bpe"))
    print(hashlib.sha256(made.backend_tokenizer.to_str().encode()).hexdigest())
"""


def test_the_same_text_gives_the_same_file_in_any_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The library's hash tables are seeded anew in each."""
    program = [sys.executable, "-c", PROGRAM]
    other = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    exec(PROGRAM, {})
    assert capsys.readouterr().out == other != ""


def test_sentinels_count_down_to_the_end_of_the_vocabulary() -> None:
    """As T5's do: the first is the last."""
    made = tokenizer("unigram", "t5")
    assert made.convert_tokens_to_ids("<extra_id_0>") == 399
    assert made.convert_tokens_to_ids("<extra_id_99>") == 300
    assert vocabulary_of(made).sentinels == tuple(range(399, 299, -1))
    assert made("<extra_id_0> cat")["input_ids"][0] == 399
    assert made.unk_token_id == 2


@given(text=st.text(max_size=40))
def test_byte_level_bpe_knows_every_text(text: str) -> None:
    made = tokenizer("bpe", "gpt")
    plain = text.encode("utf-8", "ignore").decode()
    assert made.decode(made(plain)["input_ids"]) == plain


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_text_that_is_not_enough(algorithm: Algorithm) -> None:
    for nothing in ([], [""], ["  ", "\n"], ["[PAD] [MASK]"]):
        with pytest.raises(WorkbenchError, match="empty-text"):
            train_tokenizer(nothing, algorithm, "bert", 1000)
    with pytest.warns(UserWarning, match=r"allows only [\d,]+ pieces instead of 1,000"):
        made = train_tokenizer(["word"], algorithm, "bert", 1000)
    assert made.unk_token_id not in made("word")["input_ids"]
    with pytest.warns(UserWarning, match="instead of 100,000"):
        train_tokenizer(paragraphs(20), algorithm, "bert", 100_000)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_vocabulary_below_the_alphabet_is_refused(algorithm: Algorithm) -> None:
    lines = ["Sphinx of black quartz, judge my vow! Éöß"]
    with pytest.raises(WorkbenchError, match="too small") as caught:
        train_tokenizer(lines, algorithm, "bert", 20)
    least = int(caught.value.remedy.split()[5].rstrip(";").replace(",", ""))
    with pytest.raises(WorkbenchError, match="too small"):
        train_tokenizer(lines, algorithm, "bert", least - 1)
    made = train_tokenizer(lines, algorithm, "bert", least)
    assert made.unk_token_id not in made(lines)["input_ids"][0]
    with pytest.raises(WorkbenchError, match="the special tokens alone"):
        train_tokenizer(lines, algorithm, "t5", 100)


def test_names_that_are_not_known_are_said() -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'wordpiece'"):
        train_tokenizer(["a"], "wordpieces", "bert", 100)  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="Did you mean 'roberta'"):
        train_tokenizer(["a"], "bpe", "robert", 100)  # type: ignore[arg-type]


def test_special_tokens_in_the_text_are_not_learned() -> None:
    lines = ["<extra_id_7> cat"] * 500 + paragraphs(50)
    made = train_tokenizer(lines, "unigram", "t5", 300)
    assert made.convert_tokens_to_ids("<extra_id_7>") == 299 - 7


def test_lower_case_is_lower_case() -> None:
    for algorithm in ALGORITHMS:
        made = train_tokenizer(paragraphs(50), algorithm, "bert", 330, lowercase=True)  # type: ignore[arg-type]
        assert made("THE Cat")["input_ids"] == made("the cat")["input_ids"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_words_begin_where_they_do(algorithm: Algorithm) -> None:
    made = tokenizer(algorithm, "bert")
    vocabulary = vocabulary_of(made)
    text = "The unhappily singing cat (unhappily), under a dog."
    encoding = made(text, return_offsets_mapping=True)
    starts = vocabulary.word_starts(torch.tensor([encoding["input_ids"]]))[0].tolist()
    bare = [made.convert_ids_to_tokens(i) in ("▁", "Ġ") for i in encoding["input_ids"]]
    inside = []
    for number, (first, last) in enumerate(encoding["offset_mapping"]):
        if last > first and first and text[first - 1].isalpha() and text[first].isalpha():
            inside.append(number)
    assert inside, "some word falls into pieces"
    marked = [number + 1 for number, alone in enumerate(bare) if alone]
    going_on = [number for number, start in enumerate(starts) if not start]
    assert [number for number in going_on if number not in marked] == inside
    assert starts[0] and starts[-1]


def test_what_vocabulary_knows_of_a_tokenizer() -> None:
    bert = vocabulary_of(tokenizer("wordpiece", "bert"))
    assert (bert.pad, bert.mask, bert.end, bert.before, bert.after) == (0, 4, 3, (2,), (3,))
    assert bert.special.nonzero()[:, 0].tolist() == [0, 2, 3, 4], "what is unknown is text"
    assert bert.ordinary.tolist() == list(range(5, 400)), "but is never drawn"
    gpt = vocabulary_of(tokenizer("bpe", "gpt"))
    assert (gpt.pad, gpt.mask, gpt.end, gpt.before, gpt.after) == (1, None, 0, (), ())


def test_words_by_falling_count_as_in_the_original(tmp_path: Path) -> None:
    lines = ["b b a c, don't <S> stop", "b a’s — b"]
    words = count_words(lines)
    assert words.words[:3] == MARKS
    assert words.words[3:5] == ("b", "a")
    assert words.counts[3:5] == (4, 2)
    assert {"do", "n't", "’s", ",", "—"} <= set(words.words)
    save_words(words, tmp_path)
    assert (tmp_path / "vocab.txt").read_text().split("\n")[:4] == ["<S>", "</S>", "<UNK>", "b"]
    assert read_words(tmp_path) == words
    (tmp_path / "counts.txt").unlink()
    assert read_words(tmp_path).words == words.words
    (tmp_path / "vocab.txt").write_text("the\na\n")
    with pytest.raises(WorkbenchError, match="does not begin with <S>"):
        read_words(tmp_path)
    with pytest.raises(WorkbenchError, match="empty-text"):
        count_words(["", " "])


def test_word_ids_are_places_in_the_vocabulary_and_spellings_their_rows(tmp_path: Path) -> None:
    words = count_words(paragraphs(30))
    made = word_tokenizer(words)
    save_tokenizer(made, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    ids = loaded("The cat zzz")["input_ids"]
    assert [words.words[i] for i in ids] == ["<S>", "The", "cat", "<UNK>", "</S>"]
    assert loaded.pad_token_id == len(words.words)
    table = spell(words, 12)
    assert table.shape == (len(words.words) + 1, 12)
    expected = torch.from_numpy(character_ids([words.words[i] for i in ids], 12))
    assert torch.equal(table[ids].long(), expected)
    assert set(WORDS) - set(words.words) == set() or len(words.words) > 20
