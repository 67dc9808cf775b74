"""The vocabulary that the Docs of one reader share: a language's, without its tokenizer.

Gold words need no tokenizer, so languages whose tokenizer is a package of its own can be read too.
Costs 10 ms, or the import of a language's rules where they are large.
"""

from spacy.util import get_lang_class
from spacy.vocab import Vocab, create_vocab

from workbench.errors import WorkbenchError


def vocabulary(language: str) -> Vocab:
    """A fresh vocabulary for a language code such as `en`; `xx` is no language in particular."""
    try:
        kind = get_lang_class(language)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise WorkbenchError(
            f"spaCy knows no language {language!r}.",
            remedy="Use a code such as en, de or zh; xx is for any language.",
        ) from None
    return create_vocab(kind.lang, kind.Defaults)
