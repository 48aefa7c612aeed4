"""What a prompt takes of the model's context, and one that leaves nothing of it to the call."""

from dataclasses import dataclass

from personaplex.core.config import FRAME_RATE
from personaplex.core.engine.session import SILENCE_FRAMES
from personaplex.core.errors import UsageError


@dataclass(frozen=True)
class PromptLength:
    """A prompt's text tokens and its voice's frames, of which each takes a position; a voice of None isn't known."""

    tokens: int
    voice_frames: int | None

    @property
    def silence_frames(self) -> int:
        """Frames of silence around the text."""
        return 2 * SILENCE_FRAMES

    @property
    def frames(self) -> int:
        """All that is known to be taken."""
        return self.tokens + self.silence_frames + (self.voice_frames or 0)

    @property
    def parts(self) -> str:
        """What the prompt is made of."""
        voice = "" if self.voice_frames is None else f", {self.voice_frames} frames of voice"
        return f"{self.tokens} tokens of text, {self.silence_frames} frames of silence{voice}"

    def check(self, context: int) -> None:
        """Raise UsageError if nothing of a context of so many frames is left to the call."""
        if self.frames >= context:
            what = f"the prompt takes {self.frames} frames ({self.frames / FRAME_RATE:.2f} s): {self.parts}"
            mend = f"the context holds {context} ({context / FRAME_RATE:.2f} s), the call included: shorten the prompt"
            raise UsageError(what, mend)
