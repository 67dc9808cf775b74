"""A real GPT-2 whose weights are written by hand: each named head looks where its name says.

| head      | looks at, among what it has seen                                                   |
|-----------|------------------------------------------------------------------------------------|
| previous  | the piece before; copies its code into `before`, which induction reads             |
| first     | the first piece, <|endoftext|>, which the tokenizer puts before every text         |
| rarest    | the rarest piece so far                                                            |
| syntactic | the syntactic head if it has come already, else the first piece                    |
| duplicate | the first earlier piece that is the same, else the first piece                     |
| induction | the piece after that one, else the first piece; copies its code as the answer      |
| uniform   | all alike                                                                          |

The first piece sees only itself, whatever the head. The next piece that the model gives the highest
logit is the one that induction looks at; with nothing to repeat, or without induction (gate 0), or
without `previous`, all logits are 0. The feed-forward layers are zero, and every hidden state is ±1
throughout. Texts may have up to 128 pieces, padded on either side; but on the left `duplicate`
needs places counted from the text's first piece (`position_ids`), as `generate` passes them.
"""

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from tests.planted import answers, scores
from tests.planted.model import Planted, answer_table, piece_table, place_table
from tests.planted.signs import HEADS as HEADS_A_LAYER
from tests.planted.signs import LAYERS, PLACES, WIDTH, Head, attention
from tests.planted.words import GOVERNORS_BEFORE, OTHER, START, Facts, Lexicon, lexicon

HEADS = {
    "previous": (0, 0),
    "first": (0, 1),
    "rarest": (0, 2),
    "syntactic": (0, 3),
    "duplicate": (1, 0),
    "induction": (1, 1),
    "uniform": (1, 2),  # and (1, 3)
}
BEGIN, PAD = "<|endoftext|>", "<|pad|>"
_SPACE = "Ġ"  # how byte-level pieces spell the space before them


def build(words: Lexicon | None = None) -> Planted:
    """The model and its tokenizer; a word is one piece, or two if the lexicon splits it."""
    words = words or lexicon()
    known = {_spelled(piece): fact for piece, fact in words.facts.items()}
    merges = _merges(words)
    unseen = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    facts = {BEGIN: Facts(START, 0), PAD: Facts(OTHER, 0), **known}
    facts |= {piece: Facts(OTHER, words.unseen) for piece in unseen if piece not in facts}
    config = GPT2Config(
        vocab_size=len(facts),
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS_A_LAYER,
        n_inner=32,
        n_positions=PLACES,
        layer_norm_epsilon=1e-12,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):  # its random weights go, and must cost no one a seed
        model = GPT2LMHeadModel(config)
    model.load_state_dict(_weights(model.state_dict(), facts, words.unseen))
    model.eval()
    tokenizer = _tokenizer(facts, merges)
    return Planted(model, tokenizer, facts, HEADS, answers.GPT2, causal=True)


def _spelled(piece: str) -> str:
    if piece.startswith("##"):
        return piece.removeprefix("##")
    return _SPACE + piece if piece.isalnum() else piece


def _merges(words: Lexicon) -> list[tuple[str, str]]:
    """From the space to a stem letter by letter; endings last, lest a stem lose letters to them."""
    stems = {_spelled(stem) for stem, _ in words.splits.values()}
    prefixes = {stem[:length] for stem in stems for length in range(2, len(stem) + 1)}
    chains = sorted(prefixes, key=lambda prefix: (len(prefix), prefix))
    merges = [(prefix[:-1], prefix[-1]) for prefix in chains]
    return [*merges, ("e", "s")] if merges else []


def _tokenizer(facts: dict[str, Facts], merges: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    """Byte-level BPE that takes whole words from the vocabulary and merges only what is not there.

    GPT2Tokenizer itself would forget that, and the first piece, when read back from a folder.
    """
    vocabulary = {piece: number for number, piece in enumerate(facts)}
    inner = Tokenizer(BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, vocabulary[BEGIN])]
    )
    special = {f"{name}_token": BEGIN for name in ("bos", "eos", "unk")}
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, model_max_length=PLACES, **special
    )


def _weights(shapes: dict[str, Tensor], facts: dict[str, Facts], ranks: int) -> dict[str, Tensor]:
    """All zero but for these; LayerNorm multiplies by one."""
    weights = {name: torch.zeros_like(tensor) for name, tensor in shapes.items()}
    norms = ("ln_1.weight", "ln_2.weight", "ln_f.weight")
    weights |= {name: torch.ones_like(t) for name, t in shapes.items() if name.endswith(norms)}
    weights["transformer.wte.weight"] = piece_table(facts, ranks)
    weights["transformer.wpe.weight"] = place_table()
    for layer, heads in enumerate(_layers()):
        query, key, value, output = attention(heads)
        # GPT-2 keeps its maps as [in, out], and the first three side by side
        both = torch.cat([query.T, key.T, value.T], dim=1)  # [WIDTH, 3 * WIDTH]
        weights[f"transformer.h.{layer}.attn.c_attn.weight"] = both
        weights[f"transformer.h.{layer}.attn.c_proj.weight"] = output.T.contiguous()
    weights["lm_head.weight"] = answer_table(facts)
    return weights


def _layers() -> list[dict[int, Head]]:
    heads = {
        "previous": Head(scores.near(-1), copies=("code", "before")),
        "first": Head(scores.first()),
        "rarest": Head(scores.rarest()),
        "syntactic": Head(scores.syntactic(GOVERNORS_BEFORE)),
        "duplicate": Head(scores.duplicate()),
        "induction": Head(scores.induction(), copies=("code", "answer")),
    }
    layers: list[dict[int, Head]] = [{} for _ in range(LAYERS)]
    for name, head in heads.items():
        layer, place = HEADS[name]
        layers[layer][place] = head
    return layers
