"""Stage `tokenizer`: the vocabulary of the small model's closed domain.

python -m personaplex.samples.nano.recipe.tokenizer RUN/tokenizer.model
"""

import argparse
from pathlib import Path

from personaplex.core.lm.tokenizer import SPACE
from personaplex.samples.make_tokenizer import train
from personaplex.samples.nano.recipe import domain

VOCABULARY = 691  # 4 signs, 256 bytes, 427 words, 4 marks: . , ? :


def sentences() -> list[str]:
    """What is told to the agent, said by it and said to it."""
    roles = [domain.role(d, c, n, [""]) for d in domain.ALL for c in d.companies for n in domain.NAMES]
    roles += [domain.in_sample_manifest(desk, "", "") for desk in domain.ALL]
    told = [f"<system> {role} <system>" for role in roles]
    asked = [way for intent in domain.intents() for way in intent.asked]
    return [*told, *4 * [*domain.utterances(), *asked, *domain.FIRST_OPENERS, *domain.LATER_OPENERS, *domain.MURMURS]]


def words(told: list[str]) -> list[str]:
    """The space, and every word of `told`, each to be one piece."""
    found = {word.strip(".,?:") for sentence in told for word in sentence.split()} - {""}
    return [SPACE, *sorted(SPACE + word for word in found)]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    told = sentences()
    parser.parse_args().tokenizer.write_bytes(train(told, VOCABULARY, words(told)))


if __name__ == "__main__":
    main()
