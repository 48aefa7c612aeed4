"""How well speech is understood: the word error rate of whisper-base on what `evaluate` wrote.

    python samples/nano/recipe/hear.py OUT WHISPER

It needs faster-whisper and jiwer, which nothing else does, so it is a script of its own and imports nothing of ours.
"""

import json
import re
import sys
from pathlib import Path

import jiwer
from faster_whisper import WhisperModel

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TENS = {"20": "twenty", "90": "ninety"}


def plain(text: str) -> str:
    """Small letters and words alone; the domain's numbers in words."""
    text = re.sub(r"[$']|(?<=\d):00", "", text.lower().replace("o'clock", "oclock"))
    text = re.sub(r"\d+", lambda found: _in_words(found[0]), text)
    return " ".join(re.sub(r"[^a-z ]|\b(dollars?|oclock|am|pm)\b", " ", text).split())


def _in_words(digits: str) -> str:
    if digits in TENS:
        return TENS[digits]
    return NUMBERS[int(digits)] if int(digits) < len(NUMBERS) else " ".join(NUMBERS[int(digit)] for digit in digits)


def main() -> None:
    """The command line."""
    folder, weights = map(Path, sys.argv[1:3])
    whisper = WhisperModel(str(weights), device="cpu", compute_type="int8", cpu_threads=1)
    said, heard = [], []
    for row in json.loads((folder / "rows.json").read_text()):
        options = {"language": "en", "beam_size": 1, "condition_on_previous_text": False, "temperature": 0.0}
        segments, _ = whisper.transcribe(str(folder / row["file"]), **options)
        said.append(plain(row["text"]))
        heard.append(plain(" ".join(segment.text for segment in segments)))
        print(f"{jiwer.wer(said[-1] or '-', heard[-1]):.2f} {said[-1]} | {heard[-1]}")
    print(f"word error rate {jiwer.wer(said, heard):.3f} of {sum(len(text.split()) for text in said)} words")


if __name__ == "__main__":
    main()
