"""How well what `evaluate` wrote is understood, by whisper-base, and in whose voice it is, by Resemblyzer.

    python samples/nano/recipe/hear.py OUT WHISPER

It needs faster-whisper, jiwer and resemblyzer, which nothing else does, so it is a script of its own and imports
nothing of ours.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import jiwer
from faster_whisper import WhisperModel
from resemblyzer import VoiceEncoder, preprocess_wav

SMALL = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def plain(text: str) -> str:
    """Small letters and words alone, numbers in words and without "and", "dollars" and "o'clock"."""
    text = re.sub(r"['$]|(?<=\d):00|(?<=\d)(st|nd|rd|th)\b|(?<=\d),(?=\d{3})", "", text.lower().replace("o'clock", ""))
    text = re.sub(r"\d+", lambda found: f" {_in_words(found[0])} ", text)
    return " ".join(re.sub(r"[^a-z ]|\b(and|dollars?)\b", " ", text).split())


def _in_words(digits: str) -> str:
    number = int(digits)
    if len(digits) > 3:
        return " ".join(SMALL[int(digit)] for digit in digits)
    if number >= 100:
        return f"{SMALL[number // 100]} hundred {_in_words(str(number % 100)) if number % 100 else ''}"
    if number >= 20:
        return f"{TENS[number // 10 - 2]} {SMALL[number % 10] if number % 10 else ''}"
    return SMALL[number]


def understood(folder: Path, rows: list[dict[str, Any]], whisper: WhisperModel) -> None:
    """Print the word error rate of each kind of row."""
    said, heard = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for row in rows:
        options = {"language": "en", "beam_size": 1, "condition_on_previous_text": False, "temperature": 0.0}
        segments, _ = whisper.transcribe(str(folder / row["file"]), **options)
        told, found = plain(row["text"]), plain(" ".join(segment.text for segment in segments))
        said[row["of"]].append(told)
        heard[row["of"]].append(found)
        print(f"{jiwer.wer(told or '-', found):.2f} {told} | {found}")
    for of, texts in said.items():
        count = sum(len(text.split()) for text in texts)
        print(f"{of}: word error rate {jiwer.wer(texts, heard[of]):.3f} of {count} words")


def in_voice(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Print how many calls are nearest to the voice that they were to be in."""
    encoder = VoiceEncoder("cpu", verbose=False)

    def embedded(file: Path) -> Any:
        return encoder.embed_utterance(preprocess_wav(file))

    calls = [row for row in rows if "voice" in row]
    voices = {voice: embedded(Path(voice)) for voice in sorted({row["voice"] for row in calls})}
    right = 0
    for row in calls:
        sound = embedded(folder / row["file"])
        right += max(voices, key=lambda voice: float(voices[voice] @ sound)) == row["voice"]
    print(f"in voice: {right} of {len(calls)} calls, among {len(voices)} voices")


def main() -> None:
    """The command line."""
    folder, weights = map(Path, sys.argv[1:3])
    rows = json.loads((folder / "rows.json").read_text())
    understood(folder, rows, WhisperModel(str(weights), device="cpu", compute_type="int8", cpu_threads=1))
    in_voice(folder, rows)


if __name__ == "__main__":
    main()
