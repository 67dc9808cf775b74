"""A report gives the request, its inputs and its results, in one file."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.report.making import (
    CONTROLS,
    COUNTS,
    HOSTILE,
    LONG_WORD,
    bars,
    corpus,
    described,
    found,
    made,
    model,
    words_and_sizes,
)
from workbench import Run, WorkbenchError
from workbench.corpora.splits import few_sentences_caveat
from workbench.experiment import Caveat, Table
from workbench.report import write_report
from workbench.report.format import FEWER, MOST
from workbench.report.prose import bibliography
from workbench.runs.compare import compare
from workbench.runs.status import Failure


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text outside scripts and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._inside = "", ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


def written(*runs: object, to: Path) -> str:
    return write_report(list(runs), to / "report.html").read_text(encoding="utf-8")  # type: ignore[arg-type]


def test_it_shows_request_inputs_environment_and_time(tmp_path: Path) -> None:
    run = made(
        tmp_path,
        models=(model(),),
        facts={
            "models": [{"content_hash": "hash-of-tiny-bert", "family": "bert", "parameters": 9}]
        },
    )
    page = Page(written(run, to=tmp_path))
    for said in (
        "counts, version 1", "max_sentences", "test", "hash-of-primer", "hash-of-tiny-bert",
        "bert, 9 parameters", "fp32", "torch 2.13.0", "cpu", "2026-11-21 04:33:40 UTC",
        "1 min 5 s", "412 MiB", "workbench run counts",
    ):  # fmt: skip
        assert said in page.text, said


def test_numbers_are_short_and_missing_ones_are_dashes(tmp_path: Path) -> None:
    table = pd.DataFrame({"word": ["a", "b"], "share": [1 / 3, np.nan], "n": [12345, -1]})
    page = Page(written(made(tmp_path, tables={"words": (table, COUNTS)}), to=tmp_path))
    assert "0.3333" in page.text and "–" in page.text
    assert "12,345" in page.text and "−1" in page.text


def test_it_begins_with_the_findings_and_the_figure_of_the_first(tmp_path: Path) -> None:
    claims = [
        found("Words are frequent (100; p < 0.01).", figure="second"),
        found("Dogs are not frequent.", "not supported"),
        found("Cats may be frequent.", "undecided", figure="first", decided_by="more `cats`"),
    ]
    figures = {"first": bars(["a"]), "second": bars(["b"])}
    run = made(tmp_path, findings=claims, figures=figures)
    html = written(run, to=tmp_path)
    page = Page(html)
    places = [given["id"] for _, given in page.tags if given.get("id")]
    assert places == [
        "content", "run-1-findings", "run-1-figure-second", "run-1-numbers", "run-1-method",
        "run-1-figures", "run-1-figure-first", "run-1-tables", "run-1-table-sizes",
        "run-1-table-words", "run-1-reproduce",
    ]  # fmt: skip
    assert page.text.count("Words are frequent (100; p < 0.01).") == 2  # as claim, and as title
    assert "Dogs are not frequent. not supported" in page.text
    assert "undecided Would decide it: more cats." in page.text
    numbers = page.text.replace("\n", " ").partition("Key numbers.")[2].partition("Method")[0]
    assert re.search("Words.*100.*90 to 110.*50", numbers)
    assert "Dogs" not in numbers and "Cats" not in numbers, "the data does not support them"


def test_a_run_without_findings_begins_with_its_first_figure(tmp_path: Path) -> None:
    html = written(made(tmp_path, figures={"words": bars(["a"])}), to=tmp_path)
    assert "Findings" not in html and "Key numbers" not in html
    assert html.index("run-1-figure-words") < html.index("run-1-method")


def test_its_title_is_in_words_and_may_be_the_users(tmp_path: Path) -> None:
    run = made(tmp_path, experiment="heads", models=(model("mini:bert"),))
    assert "<h1>Attention heads of mini:bert on primer</h1>" in written(run, to=tmp_path)
    notes = "One <b>line</b>\nand another.\n\n \nA paragraph."
    path = write_report(run, tmp_path / "own.html", title="My\nheads", notes=notes)
    html = path.read_text()
    assert "<h1>My heads</h1>" in html and "<title>My heads</title>" in html
    assert '<p class="notes">One &lt;b&gt;line&lt;/b&gt;\nand another.</p>' in html
    assert html.count('<p class="notes">') == 2


@pytest.mark.parametrize("own", [{"notes": "a" * 20_001}, {"title": "a" * 301}])
def test_words_that_are_too_many_are_an_error(tmp_path: Path, own: dict[str, str]) -> None:
    with pytest.raises(WorkbenchError, match="or fewer"):
        write_report(made(tmp_path), tmp_path / "report.html", **own)
    assert not (tmp_path / "report.html").exists()


def test_the_method_is_prose_with_settings_and_papers(tmp_path: Path) -> None:
    run = made(
        tmp_path,
        experiment="minimal-pairs",
        version=2,
        models=(model(),),
        settings={"pseudo_likelihood": "original", "max_sentences": 7},
        facts={
            "models": [
                {
                    "content_hash": "hash-of-tiny-bert",
                    "family": "bert",
                    "parameters": 1200,
                    "stacks": [{"name": "encoder", "layers": 2, "heads": 1}],
                }
            ]
        },
    )
    page = Page(written(run, to=tmp_path))
    assert "one piece at a time (Salazar et al. 2020)" in page.text
    assert (
        "We used tiny-bert (bert, 1,200 parameters, 2 layers of 1 head) in fp32, the test split of "
        "primer (at most 7 sentences) and seed 0, on the CPU." in page.text
    )
    assert "Julian Salazar, Davis Liang, Toan Q. Nguyen and Katrin Kirchhoff. 2020." in page.text
    assert ("a", {"href": "#run-1-salazar-2020-masked"}) in page.tags


def test_a_reference_says_where_the_paper_is() -> None:
    texts = [paper.text for paper in bibliography().values()]
    assert not [text for text in texts if ". ." in text]
    assert any(text.endswith("the logit lens. LessWrong.") for text in texts)


def test_limits_are_one_list_with_the_most_important_first(tmp_path: Path) -> None:
    caveats = [
        Caveat("Words are lower-cased.", ("words", "gone")),
        *(Caveat(text) for text in few_sentences_caveat(7)),
    ]
    facts = {"models": [{"content_hash": "hash-of-tiny-bert", "limits": "fp32 only"}]}
    run = made(tmp_path, caveats=caveats, warnings=["It was slow."], models=(model(),), facts=facts)
    (run.path / "provenance.json").write_text(
        json.dumps({**run.provenance, "files": {"tables/lost.parquet": {"bytes": 1, "sha256": ""}}})
    )
    html = written(Run(run.path), to=tmp_path)
    (listed,) = re.findall(r'<ul class="limits">(.*?)</ul>', html, re.DOTALL)
    limits = [Page(item).text.strip() for item in listed.split("<li>")[1:]]
    assert limits[0].startswith("A file is missing from this run: tables/lost.parquet.")
    assert limits[1].startswith("Only 7 sentences are scored")
    assert limits[2:] == ["Words are lower-cased. (words)", "It was slow.", "fp32 only"]


def test_no_folder_of_the_user_is_in_it(tmp_path: Path) -> None:
    data = tmp_path / "my data"
    run = made(
        tmp_path / "runs",
        models=(model(ref=f"{data}/tiny-bert"), model(ref="elmo:/a/b.json,/a/c.hdf5", name="elmo")),
        corpora=(corpus("dog", ref=f"{data}/dog.conllu"),),
        settings={"vectors": "/data/glove.txt"},
        warnings=[f"{data}/dog.conllu: 3 lines", f"Read {Path.home()}/x/y.txt", "and/or 1/2"],
        caveats=[Caveat("Model in (/opt/big/model).")],
    )
    html = written(run, to=tmp_path)
    text = Page(html).text
    for private in (str(data), str(tmp_path), str(Path.home()), "/data/", "/opt/", "/a/"):
        assert private not in html.replace("</", ""), private
    for said in (
        "--model=local:tiny-bert", "--model=elmo:local:b.json,local:c.hdf5",
        "--corpus=local:dog.conllu", "--set=vectors=local:glove.txt",
        "Read x/y.txt", "and/or 1/2", "(model)",
    ):  # fmt: skip
        assert said in text, said


def test_long_tables_have_their_first_rows_and_say_how_to_get_more(tmp_path: Path) -> None:
    words = [f"word{place}" for place in range(MOST + 7)]
    run = made(tmp_path, tables=words_and_sizes(words))
    page = Page(written(run, to=tmp_path))
    assert f"word{MOST - 1}\n" in page.text or f"word{MOST - 1}1" in page.text
    assert f"word{MOST}" not in page.text
    assert "107 rows." in page.text and "7 more rows are not in this file" in page.text
    assert f"workbench export {run.name} words --out words.csv" in page.text
    several = Page(written(run, made(tmp_path, seed=1), to=tmp_path))
    assert f"{MOST + 7 - FEWER} more rows are not in this file" in several.text


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = [described(tmp_path), made(tmp_path, figures={"words": bars(["a"])})]
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    write_report(runs, first)
    write_report(runs, second)
    assert first.read_bytes() == second.read_bytes()


def test_runs_of_one_experiment_are_compared_with_signs(tmp_path: Path) -> None:
    before = made(tmp_path, tables=words_and_sizes(["the", "dog"]))
    after = made(tmp_path, tables=words_and_sizes(["the", "cat"], more=-5), seed=1)
    page = Page(written(before, after, to=tmp_path))
    assert "Comparison of 2 runs of counts" in page.text
    assert "B − A docs" in page.text and "−5" in page.text
    assert "A share" in page.text and "seed" in page.text
    more = Page(written(after, before, to=tmp_path))
    assert "+5" in more.text


def test_several_runs_begin_with_a_summary_and_what_changed(tmp_path: Path) -> None:
    before = made(tmp_path, findings=[found("Words: 100."), found("Cats: 1.", value=1.0)])
    after = made(
        tmp_path, findings=[found("Words: 300.", value=300.0, interval=(290, 310))], seed=1
    )
    html = written(before, after, to=tmp_path)
    text = Page(html).text.replace("\N{NO-BREAK SPACE}", " ")
    assert text.index("Words: 300.") < text.index("Comparison of 2 runs")
    assert "Words:: 100 in A, 300 in B (+200, 95 % 186 to 214)." in text
    assert html.index("compared-counts") < html.index('id="run-1"') < html.index('id="run-2"')


def test_runs_of_several_experiments_stand_one_after_another(tmp_path: Path) -> None:
    other = made(tmp_path, experiment="other")
    page = Page(written(made(tmp_path), other, to=tmp_path))
    assert "Comparison" not in page.text
    assert {"run-1", "run-2"} <= {given.get("id") for _, given in page.tags}


def test_runs_whose_tables_do_not_fit_are_said_so(tmp_path: Path) -> None:
    twice = Table("No key.", ("word",))
    here = made(tmp_path, tables={"words": (pd.DataFrame({"word": ["a"], "n": [1]}), twice)})
    there = made(
        tmp_path, seed=1, tables={"words": (pd.DataFrame({"other": ["a"], "n": [1]}), SPARE)}
    )
    assert "words: these tables cannot be aligned" in Page(written(here, there, to=tmp_path)).text


SPARE = Table("Another.", ("other",))


def test_a_sweep_says_what_was_swept_and_of_which_runs_it_is_made(tmp_path: Path) -> None:
    parts = tuple(made(tmp_path, seed=seed).spec for seed in (0, 1))
    run = made(
        tmp_path,
        sweep={"seed": [0, 1]},
        parts=parts,
        facts={"runs": [part.name for part in parts]},
    )
    page = Page(written(run, to=tmp_path))
    assert "seed (swept)" in page.text and "0, 1" in page.text
    assert all(part.name in page.text for part in parts)
    assert "--sweep=seed=0,1" in page.text


def test_hostile_text_is_text_wherever_it_stands(tmp_path: Path) -> None:
    hostile = [*HOSTILE.values(), CONTROLS, LONG_WORD]
    run = made(
        tmp_path,
        tables=words_and_sizes(hostile),
        figures={"words": bars(hostile, title=HOSTILE["end"])},
        caveats=[Caveat(text) for text in hostile],
        warnings=hostile,
        corpora=(corpus(HOSTILE["script"], ref=HOSTILE["end"]),),
        settings={"text": HOSTILE["markup"]},
        facts={"about": HOSTILE["script"], "platform": HOSTILE["end"]},
    )
    html = written(run, to=tmp_path)
    page = Page(html)
    for text in HOSTILE.values():
        assert text in page.text
    assert [given for tag, given in page.tags if tag == "script"] == [{}]
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    assert not {"img", "iframe", "object", "link"} & {tag for tag, _ in page.tags}
    assert "⟨U+0000⟩" in page.text and "⟨U+202E⟩" in page.text
    assert not re.search("[\0\x07\x1b\u202e\u2067]", html)
    assert "<bdi>שלום" in html


def test_nothing_is_loaded_and_only_our_scripts_may_run(tmp_path: Path) -> None:
    page = Page(written(described(tmp_path), to=tmp_path))
    for _, given in page.tags:
        assert not given.keys() & {"src", "srcset", "action", "data"}
        assert (given.get("href") or "#").startswith("#")
    (policy,) = [given["content"] for _, given in page.tags if given.get("http-equiv")]
    assert policy and "default-src 'none'" in policy and policy.count("'sha256-") == 1


def test_a_report_without_figures_carries_no_scripts(tmp_path: Path) -> None:
    html = written(made(tmp_path), to=tmp_path)
    assert "<script" not in html and "script-src 'none'" in html
    assert len(html) < 50_000


def test_headings_are_in_order_and_tables_are_captioned(tmp_path: Path) -> None:
    page = Page(written(described(tmp_path), made(tmp_path), to=tmp_path))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption") > 10
    assert all(given.get("scope") for tag, given in page.tags if tag == "th")
    places = {given.get("id") for _, given in page.tags}
    links = [given["href"] for tag, given in page.tags if tag == "a"]
    assert links and all((link or "").removeprefix("#") in places for link in links)


@pytest.mark.parametrize("state", ["failed", "cancelled", "queued"])
def test_a_run_without_results_is_an_error_that_says_so(tmp_path: Path, state: str) -> None:
    run = made(tmp_path, state=state)  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="has no results"):
        write_report([run], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_run_that_bad_input_ended_names_it_and_its_remedy(tmp_path: Path) -> None:
    wrong = WorkbenchError("there are no pairs.", where="a.tsv", remedy="Name a table of pairs.")
    run = made(tmp_path, state="failed", failure=Failure.of(wrong))
    with pytest.raises(WorkbenchError, match=r"a\.tsv: there are no pairs") as error:
        write_report([run], tmp_path / "report.html")
    assert error.value.remedy == "Name a table of pairs." and "resume" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report.htm", "Did you mean '.html'"),
        ("report.docx", "Known"),
        ("report", "format-unknown"),
    ],
)
def test_an_unknown_ending_is_an_error_with_a_remedy(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(WorkbenchError, match=said):
        write_report([made(tmp_path)], tmp_path / name)


def test_a_comparison_is_reported_as_its_runs(tmp_path: Path) -> None:
    runs = [made(tmp_path), made(tmp_path, seed=1)]
    listed = write_report(runs, tmp_path / "listed.html")
    compared = write_report(compare(*runs), tmp_path / "compared.html")
    assert compared.read_bytes() == listed.read_bytes()
    with pytest.raises(WorkbenchError, match="not a Tables"):
        write_report(runs[0].tables, tmp_path / "tables.html")  # type: ignore[arg-type]


def test_a_report_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="needs a run"):
        write_report([], tmp_path / "report.html")


def test_facts_of_the_wrong_kind_are_an_error_not_a_traceback(tmp_path: Path) -> None:
    run = made(tmp_path, facts={"caveats": [{"words": 1}]})
    with pytest.raises(WorkbenchError, match="cannot be read"):
        write_report([run], tmp_path / "report.html")


def test_figures_need_no_experiment(tmp_path: Path) -> None:
    run = made(tmp_path, experiment="long-gone", figures={"words": bars(["a"])})
    assert "run-1-figure-words" in written(run, to=tmp_path)


def test_figures_are_drawn_again_where_the_experiment_is_installed(tmp_path: Path) -> None:
    html = written(described(tmp_path), to=tmp_path)
    assert "run-1-figure-relations" in html and "Zipf's law" in Page(html).text


def test_style_and_script_are_part_of_the_package() -> None:
    for name in ("report.css", "report.js", "figure.js", "papers.bib"):
        assert files("workbench.report").joinpath(name).is_file()


def test_a_name_that_is_given_twice_stands_once(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert written(run, run, to=tmp_path) == written(run, to=tmp_path)
