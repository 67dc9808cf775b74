"""Six layers of BERT and of GPT on real novels, within a time: the loss falls the whole way."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from workbench.cli.main import main

SECONDS = 120


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_the_loss_falls_the_whole_way(
    family: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    novels = data / "text" / "novels.txt.xz"
    command = f"workbench train {family} --corpus {novels} --n-layers 6 --sequence-length 64"
    objective = ["--objective", "masked"] if family == "bert" else []
    budget = ["--time-budget", f"{SECONDS}s", "--batch-size", "16", "--device", "cpu", "--json"]
    monkeypatch.setattr(sys, "argv", [*command.split(), *objective, *budget])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code in (0, None), err
    curves = pd.read_parquet(Path(json.loads(out)["path"]) / "tables" / "curves.parquet")
    assert SECONDS - 5 < curves["seconds"].iloc[-1] < SECONDS + 15
    tenths = curves["loss"].groupby(pd.qcut(curves["tokens"], 5, labels=False)).mean()
    assert tenths.is_monotonic_decreasing, tenths.tolist()
    held = curves["held_out"].dropna()
    assert held.iloc[-1] < held.iloc[0] - 0.2
