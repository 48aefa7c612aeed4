"""What a codec does to speech: sentences that it was not trained on, as flite speaks them and through the codec."""

from pathlib import Path

import soundfile
import torch

from personaplex.core.config import SAMPLE_RATE
from personaplex.core.mimi.codec import Mimi
from personaplex.samples.nano.recipe.render import render
from personaplex.samples.nano.recipe.texts import drawn
from personaplex.samples.nano.recipe.units import AGENTS

SENTENCES = 20  # of each voice
TRAINED_ON, SEED = (4500, 11), 4321


def recoded(mimi: Mimi, folder: Path) -> list[dict[str, str]]:
    """Write the sentences to `folder`; returns their files, texts and which of the two they are."""
    texts = drawn(SENTENCES, SEED, drawn(*TRAINED_ON))
    rows = []
    for voice in AGENTS:
        for number, spoken in enumerate(render(texts, SEED, voice)):
            made = mimi.decode_call(mimi.encode_call(torch.from_numpy(spoken.samples)))
            for of, samples in (("original", spoken.samples), ("recoded", made[: len(spoken.samples)].numpy())):
                file = f"{voice}.{number}.{of}.wav"
                soundfile.write(folder / file, samples.clip(-1, 1), SAMPLE_RATE)
                rows.append({"file": file, "text": spoken.text, "of": f"{of} {voice}"})
    return rows
