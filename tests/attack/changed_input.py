"""A corpus or a model changed on disk while a run reads it: `python -m tests.attack.changed_input`.

Runs of the command line are disturbed at random moments after they have begun; each must end as
failed and say that its files changed, and keep no tables. Costs 10 s a run.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.attack.commands import Commands


def main() -> int:
    """Disturb so many runs; 1 where one of them was not marked."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.changed_input")
    parser.add_argument("--times", type=int, default=6, help="runs of each kind (default 6)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default 0)")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    unmarked = 0
    for what in ("corpus", "model"):
        marked = early = 0
        while marked + unmarked < options.times:
            with tempfile.TemporaryDirectory(prefix="attack-changed-") as folder:
                said = _disturbed(what, Commands(Path(folder)), draw)
            if said == "too late":
                early += 1
                continue
            marked += "changed" in said
            unmarked += "changed" not in said
            if "changed" not in said:
                print(f"not marked: {said}")
        print(f"{what}: {marked} of {options.times} runs marked, {early} ended before the change")
    return 1 if unmarked else 0


def _disturbed(what: str, place: Commands, draw: random.Random) -> str:
    """What a run said that was disturbed, or that it was done before."""
    import workbench
    from workbench import read, write
    from workbench.runs import status

    corpus, model = place.folder / "some.conllu", place.folder / "bert"
    write(read("primer:size=20000").docs("train", limit=8_000), corpus)
    shutil.copytree(Path(workbench.__file__).parent / "models" / "mini" / "bert", model)
    command = ["run", "profile", "--model", str(model), "--corpus", str(corpus)]
    process = place.begun(command)
    state = None
    while process.poll() is None and (state is None or state.state != "running"):
        time.sleep(0.02)
        found = list(place.folder.glob("runs/profile-*"))
        state = status.read(found[0]) if found else None
    time.sleep(draw.uniform(3.0, 6.0))  # it has opened what it reads
    ended = process.poll() is not None
    path = corpus if what == "corpus" else model / "model.safetensors"
    content = bytearray(path.read_bytes())
    at = draw.randrange(len(content) // 2, len(content))
    content[at] ^= 1
    path.write_bytes(content)
    process.wait()
    if ended or (process.returncode == 0 and _done_before(place.folder, path)):
        return "too late"
    left = [path.name for run in place.folder.glob("runs/*") for path in run.glob("tables/*")]
    said = (place.folder / "said").read_text(errors="replace").strip().splitlines()[-2:]
    return f"{' '.join(said)}{f' left: {left}' if left else ''}"


def _done_before(folder: Path, path: Path) -> bool:
    """Whether the run had ended when the file was written."""
    done = [run / "status.json" for run in folder.glob("runs/*")]
    return all(file.stat().st_mtime <= path.stat().st_mtime for file in done)


if __name__ == "__main__":
    sys.exit(main())
