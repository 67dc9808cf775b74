"""The experiment that docs/how-to/write-an-experiment.md shows is found, runs, and is reported."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from workbench import read, tiny_bert

ROOT = Path(__file__).parents[1]
SHOWN = (ROOT / "docs" / "how-to" / "write-an-experiment.md").read_text()


def block(kind: str) -> str:
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", SHOWN, flags=re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_example_is_short() -> None:
    assert len(block("python").splitlines()) < 70


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The example as an installed package of somebody's own."""
    entry_points = tomllib.loads(block("toml"))["project"]["entry-points"]
    installed = tmp_path / "installed"
    about = installed / "fertility-1.0.dist-info"
    about.mkdir(parents=True)
    (installed / "fertility.py").write_text(block("python"))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fertility\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {home}\n" for name, home in points.items())
        for group, points in entry_points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return installed


@pytest.mark.slow
def test_the_example_is_an_experiment(package: Path, tmp_path: Path) -> None:
    for part in tiny_bert(token.text for doc in read("primer").docs("dev", 50) for token in doc):
        part.save_pretrained(tmp_path / "tiny")

    def workbench(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(package),
                "WORKBENCH_HOME": str(tmp_path / "home"),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    inputs = ("--model", "tiny", "--corpus", "primer", "--split", "dev", "--max-sentences", "50")
    result = json.loads(workbench("run", "fertility", *inputs, "--min-words", "1", "--json"))
    assert result["status"] == "done"
    workbench("export", result["run"], "fertility", "--out", "fertility.json")
    assert '"NOUN"' in (tmp_path / "fertility.json").read_text()
    table = pd.read_parquet(Path(result["path"]) / "tables" / "fertility.parquet").set_index("tag")
    whole = table["pieces"][["NOUN", "VERB", "DET", "ADP"]]
    assert (whole == 1).all()  # the tiny vocabulary has every word of these sentences
    assert table["pieces"]["PART"] > 1  # but BERT cuts at apostrophes
    assert (Path(result["path"]) / "figures" / "pieces.json").is_file()
    workbench("report", result["run"], "--out", "fertility.html")
    assert "How many pieces a tokenizer makes" in (tmp_path / "fertility.html").read_text()
