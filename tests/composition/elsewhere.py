"""What plain transformers, and peft, make of saved folders: run by tests in a process of its own.

    python -I tests/composition/elsewhere.py < cases.json > answers.json

Workbench cannot be imported here. A case names a class of transformers, a folder, perhaps the base
of an adapter, and pieces; its answer has the logits, the labels, and what could not be opened.
"""

import json
import sys
import warnings


class _Blocked:
    """Refuses to import Workbench."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("workbench", "lm_workbench", "tests"):
            raise ImportError(f"{name} is not to be used here")
        return


sys.meta_path.insert(0, _Blocked())
warnings.simplefilter("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.disable_progress_bar()


def answer(case: dict) -> dict:
    """The logits of a case, or why there are none."""
    kind = getattr(transformers, case["auto"])
    try:
        if "base" in case:
            from peft import PeftModel

            base = kind.from_pretrained(
                case["base"], num_labels=case["labels"], pad_token_id=case["pad"]
            )
            net = PeftModel.from_pretrained(base, case["folder"])
            missing = []
        else:
            net, info = kind.from_pretrained(case["folder"], output_loading_info=True)
            missing = sorted(info["missing_keys"])
    except Exception as error:  # what a user would see
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    net.eval()
    inputs = {name: torch.tensor(value) for name, value in case["inputs"].items()}
    with torch.no_grad():
        out = net(**inputs)
    if "start_logits" in out:
        logits = torch.stack([out["start_logits"], out["end_logits"]], -1)
    else:
        logits = out["logits"]
    config = net.config if hasattr(net, "config") else net.base_model.config
    return {
        "logits": logits.flatten().tolist(),
        "labels": [str(config.id2label[index]) for index in sorted(config.id2label)],
        "problem": getattr(config, "problem_type", None),
        "missing": missing,
    }


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
