"""Random models in the shapes of real ones: many layers, large vocabularies, odd geometry.

No weights of real models are at hand, but what breaks on them is their shape: grouped queries, tied
and untied embeddings of 50,000 to 150,000 pieces, bf16 in several files, a first position of
massive norm, features far larger than others. `decoder` has SmolLM's shape by default, `encoder`
BERT's. Costs: seconds and 270 MB of disk at full width; a narrow one keeps all but the width and
costs a tenth of a second.
"""

from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

from tests.models.vocabularies import tokenizer
from tests.tiny import tiny_bert
from workbench import Corpus
from workbench.models.huggingface import HuggingFace

MASSIVE = 1000.0  # times larger, the state of the first position
OUTLIERS = (7, 50)  # features of an encoder that are far larger than others
SHARDS = "100MB"  # maximum size of a file of weights


def decoder(
    folder: Path,
    layers: int = 30,
    heads: int = 9,
    key_value_heads: int = 3,
    head_width: int = 64,
    pieces: int = 49_152,
    is_tied: bool = True,
    dtype: torch.dtype = torch.bfloat16,
) -> Path:
    """Write a random decoder with grouped queries and a massive first position there."""
    words = tokenizer("llama")
    config = LlamaConfig(
        vocab_size=pieces,
        hidden_size=heads * head_width,
        intermediate_size=heads * head_width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        tie_word_embeddings=is_tied,
        max_position_embeddings=2048,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = LlamaForCausalLM(config)
        with torch.no_grad():
            net.model.embed_tokens.weight[words.bos_token_id] *= MASSIVE
    net.to(dtype).save_pretrained(folder, max_shard_size=SHARDS)
    words.save_pretrained(folder)
    return folder


def encoder(
    corpus: Corpus, layers: int = 12, heads: int = 12, head_width: int = 64, outlier: float = 15.0
) -> HuggingFace:
    """A random BERT that reads the words of a corpus, whose states are far from isotropic."""
    vocabulary = {
        token.text for split in corpus.splits for doc in corpus.docs(split) for token in doc
    }
    _, words = tiny_bert(sorted(vocabulary))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=heads * head_width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * heads * head_width,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = BertForMaskedLM(config)
        norms = [net.bert.embeddings.LayerNorm]
        with torch.no_grad():
            for layer in net.bert.encoder.layer:
                layer.attention.self.query.weight *= 4  # attention is far from uniform
                norms.append(layer.output.LayerNorm)
            for norm in norms:
                norm.weight[list(OUTLIERS)] *= outlier
                norm.bias[list(OUTLIERS)] += outlier
                norm.bias += 0.5 * torch.randn_like(norm.bias)
    net.eval()
    return HuggingFace(net, words, "anisotropic")
