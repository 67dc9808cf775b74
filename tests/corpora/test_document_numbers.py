"""Which document each Doc counts as, where documents are resampled."""

from spacy.tokens import Doc

from workbench.corpora.layers import document_numbers, vocabulary


def test_rows_of_a_table_count_as_documents_and_sentences_of_documents_do_not() -> None:
    def numbers(names: list[str]) -> list[int]:
        docs = [Doc(vocabulary("en"), words=["a"]) for _ in names]
        for doc, name in zip(docs, names, strict=True):
            doc._.document = name
        return document_numbers(docs)

    assert numbers(["test"] * 4) == [0, 1, 2, 3]
    assert numbers(["train", "test", "test"]) == [0, 1, 2]
    assert numbers([*"aabcdeb"]) == [0, 0, 1, 2, 3, 4, 1]
    assert numbers(["", "", "", "", ""]) == [0, 1, 2, 3, 4]
