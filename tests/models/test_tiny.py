"""The tiny BERT is a real one, made of the words it is given."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.tiny import tiny_bert
from workbench.models.huggingface import HuggingFace
from workbench.models.references import facts

WORDS = ["The", "dog", "don't", "naïve", "café", "barks", ".", "1990s", "漢字"]


def test_each_word_is_kept_whole_unless_bert_cuts_it_at_punctuation() -> None:
    _, tokenizer = tiny_bert(WORDS)
    text = "The naïve dog barks . café 1990s"
    assert tokenizer.tokenize(text) == text.split()
    assert tokenizer.tokenize("don't") == ["don", "'", "t"]
    assert tokenizer.tokenize("漢字") == ["漢", "字"]


def test_other_words_over_the_same_characters_fall_into_characters() -> None:
    _, tokenizer = tiny_bert(WORDS)
    assert tokenizer.tokenize("god") == ["g", "##o", "##d"]
    assert tokenizer.tokenize("xyz") == ["[UNK]"]


def test_model_and_tokenizer_come_back_from_disk_the_same(tmp_path: Path) -> None:
    model, tokenizer = tiny_bert(WORDS)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = "The dog barks , naïve café 1990s"
    before = tokenizer(text, return_tensors="pt")
    after = AutoTokenizer.from_pretrained(tmp_path)(text, return_tensors="pt")
    assert torch.equal(before["input_ids"], after["input_ids"])
    again = AutoModelForMaskedLM.from_pretrained(tmp_path)
    with torch.inference_mode():
        assert torch.equal(model(**before)[0], again(**after)[0])


def test_same_seed_gives_the_same_weights_and_leaves_the_global_seed_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (tiny_bert(WORDS, seed=seed)[0] for seed in (3, 3, 4))
    assert torch.equal(torch.rand(1), expected)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])


def test_order_and_repetition_of_words_do_not_matter() -> None:
    _, one = tiny_bert(WORDS)
    _, other = tiny_bert(reversed(WORDS * 2))
    assert one.get_vocab() == other.get_vocab()


def test_facts_are_counted_not_copied() -> None:
    model, tokenizer = tiny_bert(WORDS)
    found = facts(HuggingFace(model, tokenizer, "tiny"))
    assert (found["name"], found["family"], found["width"]) == ("tiny", "bert", 32)
    assert [(s["name"], s["layers"], s["heads"]) for s in found["stacks"]] == [("encoder", 2, 2)]
    # word, position and type embeddings with their norm; per layer 4 square maps, 2 of the
    # feed-forward, 2 norms; the head's map and norm, and a bias a piece
    embeddings = (len(tokenizer) + 512 + 2) * 32 + 2 * 32
    layer = 4 * (32 * 32 + 32) + (32 * 64 + 64) + (64 * 32 + 32) + 2 * (2 * 32)
    head = (32 * 32 + 32) + 2 * 32 + len(tokenizer)
    assert found["parameters"] == embeddings + 2 * layer + head


@pytest.mark.parametrize("words", [[], [""], [" "]])
def test_without_words_there_are_the_special_tokens(words: list[str]) -> None:
    _, tokenizer = tiny_bert(words)
    assert set(tokenizer.get_vocab()) == {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
