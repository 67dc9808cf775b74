"""Logits with the engine on are eager's, for every architecture's own language-model head."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

from tests.models.test_attention import cases, inputs
from tests.night import of_zoo
from workbench import Capture, Gate
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load

HEADED = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "electra": "ElectraForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
    "deberta-v2": "DebertaV2ForMaskedLM",
    "xlnet": "XLNetLMHeadModel",
    "longformer": "LongformerForMaskedLM",
    "openai-gpt": "OpenAIGPTLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "bloom": "BloomForCausalLM",
    "gpt-neox": "GPTNeoXForCausalLM",
    "llama": "LlamaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "t5-3-2": "T5ForConditionalGeneration",
    "t5-6-12": "T5ForConditionalGeneration",
    "mt5": "MT5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "bart-3-2": "BartForConditionalGeneration",
    "bart-12-6": "BartForConditionalGeneration",
}


@pytest.mark.parametrize("name", of_zoo(HEADED, "deberta-v2"))
def test_logits_are_eagers(name: str, zoo_folder: Callable[[str], Path], tmp_path: Path) -> None:
    kind = getattr(transformers, HEADED[name])
    torch.manual_seed(0)
    kind(AutoConfig.from_pretrained(zoo_folder(name))).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(zoo_folder(name)).save_pretrained(tmp_path)
    model = load(tmp_path, "cpu")
    assert isinstance(model, HuggingFace)
    plain = kind._from_config(deepcopy(model.net.config), attn_implementation="eager").eval()
    plain.load_state_dict(model.net.state_dict())
    assert type(model.net).__name__ == HEADED[name]
    for text, target in cases(model):
        with torch.no_grad():
            expected = plain(**inputs(model, text, target)).logits
            for taps in ([], [Capture()], [Gate(torch.ones(len(model.sites), 4))]):
                output = model.forward(text, targets=target, taps=taps, logits=True)
                assert output.logits is not None
                real = output.texts[model.stacks[-1].name].mask
                torch.testing.assert_close(
                    output.logits[real], expected[real], atol=1e-5, rtol=1e-5
                )
                for stack in model.stacks:
                    assert len(output.hidden[stack.name]) == stack.layers + 1
