"""How long it takes to turn a head off: the whole script of the page One head, on the server.

`python -m tests.benchmarks.head_switch --out FILE.json`. The page is run by AppTest, so the browser
is not in it. Each state of the switch is measured once it was not chosen before, in seconds of the
wall and of this process (a busy machine does not count in the latter), on the mini models and on a
decoder in the shape of SmolLM: 30 layers of 9 heads, 135 million weights. Costs: a minute.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streamlit.testing.v1 import AppTest

from tests.app.pages import opened
from tests.models import real_shapes

TEXT = "The girls did not visit it because they were tall."
HEADS = ("2.1", "2.2", "3.1", "3.3")
STATES = ("off", "halve", "double", "mean")
PATIENCE = 300  # seconds for a page
BOUNDS = {"mini": 0.5, "decoder": 2.0}


def seconds_of(model: str, heads: tuple[str, ...] = HEADS) -> dict[str, Any]:
    """Seconds from the choice to the end of the page's script, by state of the switch."""
    found: dict[str, Any] = {state: [] for state in STATES}
    for head in heads:
        app = opened("head", model=model, head=head, text=TEXT)
        for state in STATES:
            box = next(each for each in app.button_group if str(each.key).startswith("switch "))
            began, cpu = time.perf_counter(), time.process_time()
            box.set_value(state)
            app.run(timeout=PATIENCE)
            found[state].append((time.perf_counter() - began, time.process_time() - cpu))
            assert not app.exception and not app.error, (model, head, state)
    return {
        state: {
            "wall": round(statistics.median(wall for wall, _ in pairs), 3),
            "process": round(statistics.median(cpu for _, cpu in pairs), 3),
        }
        for state, pairs in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    AppTest._finished_page_script_hash = property(  # type: ignore[attr-defined]
        lambda app: "", lambda app, page: None
    )  # every run begins with the app, not with the page alone
    with TemporaryDirectory() as folder:
        os.environ["WORKBENCH_HOME"] = f"{folder}/home"
        os.environ["WORKBENCH_RUNS"] = f"{folder}/runs"
        Path(folder, "home").mkdir()
        decoder = real_shapes.decoder(Path(folder, "decoder"))
        found = {
            **{name: seconds_of(name) for name in ("mini:bert", "mini:gpt")},
            "decoder 30x9": seconds_of(str(decoder), HEADS[:2]),
        }
    text = json.dumps({"bounds": BOUNDS, "seconds": found}, indent=2)
    print(text)
    if out is not None:
        out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
