"""A real BERT whose weights are written by hand: each named head looks where its name says.

| head      | looks at                                                                           |
|-----------|------------------------------------------------------------------------------------|
| previous  | the piece before ([CLS] at itself); copies its code, so the model answers with it  |
| next      | the piece after ([SEP] at itself)                                                  |
| separator | the last [SEP], whose value is exactly zero though other pieces' values are not    |
| first     | [CLS]                                                                              |
| rarest    | the rarest piece of the text                                                       |
| syntactic | the syntactic head, by the rule of `tests.planted.words`; roots and others at [CLS]|
| uniform   | all alike                                                                          |

Only `previous` changes anything: with it the language-modelling head gives the piece before the
highest logit, without it (gate 0) all logits are 0. The feed-forward layers are zero, and every
hidden state is ±1 throughout. Texts may have up to 128 pieces, padded on either side.
"""

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from tests.planted import answers, scores
from tests.planted.model import Planted, answer_table, piece_table, place_table
from tests.planted.signs import HEADS as HEADS_A_LAYER
from tests.planted.signs import LAYERS, PLACES, WIDTH, Head, attention
from tests.planted.words import GOVERNORS, OTHER, START, STOP, Facts, Lexicon, lexicon

HEADS = {
    "previous": (0, 0),
    "next": (0, 1),
    "separator": (0, 2),
    "first": (0, 3),
    "rarest": (1, 0),
    "syntactic": (1, 1),
    "uniform": (1, 2),  # and (1, 3)
}
_SPECIAL = {"[PAD]": OTHER, "[CLS]": START, "[SEP]": STOP, "[MASK]": OTHER}


def build(words: Lexicon | None = None) -> Planted:
    """The model and its tokenizer, cased; a word is one piece, or two if the lexicon splits it."""
    words = words or lexicon()
    facts = {piece: Facts(kind, 0) for piece, kind in _SPECIAL.items()}
    facts |= {"[UNK]": Facts(OTHER, words.unseen), **words.facts}
    vocabulary = {piece: number for number, piece in enumerate(facts)}
    tokenizer = BertTokenizer(
        vocab=vocabulary, do_lower_case=False, model_max_length=PLACES, strip_accents=False
    )
    config = BertConfig(
        vocab_size=len(facts),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS_A_LAYER,
        intermediate_size=32,
        max_position_embeddings=PLACES,
        hidden_act="relu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=vocabulary["[PAD]"],
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):  # its random weights go, and must cost no one a seed
        model = BertForMaskedLM(config)
    model.load_state_dict(_weights(model.state_dict(), facts, words.unseen))
    model.eval()
    pooler = {"weight": torch.zeros(WIDTH, WIDTH), "bias": torch.zeros(WIDTH)}
    spare = {f"bert.pooler.dense.{name}": tensor for name, tensor in pooler.items()}
    return Planted(model, tokenizer, facts, HEADS, answers.BERT, spare=spare)


def _weights(shapes: dict[str, Tensor], facts: dict[str, Facts], ranks: int) -> dict[str, Tensor]:
    """All zero but for these; LayerNorm multiplies by one."""
    weights = {name: torch.zeros_like(tensor) for name, tensor in shapes.items()}
    weights |= {n: torch.ones_like(t) for n, t in shapes.items() if n.endswith("LayerNorm.weight")}
    weights["bert.embeddings.word_embeddings.weight"] = piece_table(facts, ranks)
    weights["bert.embeddings.position_embeddings.weight"] = place_table()
    for layer, heads in enumerate(_layers()):
        at = f"bert.encoder.layer.{layer}.attention"
        query, key, value, output = attention(heads)
        weights[f"{at}.self.query.weight"] = query
        weights[f"{at}.self.key.weight"] = key
        weights[f"{at}.self.value.weight"] = value
        weights[f"{at}.output.dense.weight"] = output
    # relu turns ±1 into 1 and 0, and LayerNorm turns those into ±1 again
    weights["cls.predictions.transform.dense.weight"] = torch.eye(WIDTH)
    weights["cls.predictions.decoder.weight"] = answer_table(facts)
    return weights


def _layers() -> list[dict[int, Head]]:
    heads = {
        "previous": Head(scores.near(-1), copies=("code", "answer")),
        "next": Head(scores.near(+1)),
        "separator": Head(scores.separator(), copies=("code", "unread")),
        "first": Head(scores.first()),
        "rarest": Head(scores.rarest()),
        "syntactic": Head(scores.syntactic(GOVERNORS)),
    }
    layers: list[dict[int, Head]] = [{} for _ in range(LAYERS)]
    for name, head in heads.items():
        layer, place = HEADS[name]
        layers[layer][place] = head
    return layers
