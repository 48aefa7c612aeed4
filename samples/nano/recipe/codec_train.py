r"""Stage `codec`: trains the small Mimi on rendered sentences.

    python -m torch.distributed.run --nproc-per-node 2 -m personaplex.samples.nano.recipe.codec_train \
        DATA RUN --threads 1 --compile --steps 3800

Run again, it goes on from RUN/codec.pt. Beside the re-synthesis it learns phones, read from the first codebook and from
the decoder's features, so that the codes hold what is said before they hold how it sounds.
"""

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from personaplex.core.config import FRAME_SAMPLES, MimiConfig, MimiTransformerConfig
from personaplex.core.mimi.codec import Mimi
from personaplex.samples.nano.recipe import codec_pass, workers
from personaplex.samples.nano.recipe.codec_losses import Spectra
from personaplex.samples.nano.recipe.quantise import quantise, start_from, unquantised

CONFIG = MimiConfig(
    filters=16,
    dim=256,
    ratios=[8, 6, 5, 4],
    codebook_dim=64,
    codebook_size=512,
    codebooks=8,
    transformer=MimiTransformerConfig(num_heads=4, num_layers=3, feedforward=768, context=250),
)
LABEL_SAMPLES = 480
LABELS_PER_FRAME = FRAME_SAMPLES // LABEL_SAMPLES
NO_LABEL = -1
WEIGHTS = (1.0, 0.5, 0.4, 0.4)
PARTS = ("mel", "fine", "phones1", "phones", "commit", "distinct")
LIVE = 400  # steps before the codes are used
COLLECT = 40  # of them, at the end, whose latents the codewords start from


@dataclass
class Sentences:
    """Rendered sentences end to end, and the phone of each 20 ms."""

    sound: np.ndarray  # int16 [N]
    labels: np.ndarray  # int8 [N / 480], each sentence rounded up
    items: list[dict[str, Any]]
    phones: list[str]

    @classmethod
    def read(cls, path: Path) -> "Sentences":
        """What the data stage wrote."""
        index = json.loads(path.with_suffix(".json").read_text())
        sound = np.load(path.with_suffix(".sound.npy"), mmap_mode="r")
        labels = np.load(path.with_suffix(".labels.npy"))
        offset = 0
        for item in index["items"]:
            item["labels"] = offset
            offset += -(-item["length"] // LABEL_SAMPLES)
        return cls(sound, labels, index["items"], index["phones"])

    def weights(self, voices: dict[str, float]) -> np.ndarray:
        """How often each sentence is drawn, [sentences]: by its voice's weight and its length."""
        weights = np.array([voices.get(item["voice"], 0.0) * item["length"] for item in self.items])
        return np.asarray(weights / weights.sum())

    def crops(self, count: int, frames: int, weights: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Random pieces: sound float32 [count, frames * 1920] and phones int64 [count, frames, 4]."""
        length = frames * FRAME_SAMPLES
        sound = np.zeros((count, length), np.float32)
        labels = np.full((count, frames * LABELS_PER_FRAME), NO_LABEL, np.int64)
        for row, which in enumerate(rng.choice(len(self.items), count, p=weights)):
            item = self.items[which]
            units = -(-item["length"] // LABEL_SAMPLES)
            wanted = frames * LABELS_PER_FRAME
            first = int(rng.integers(-2 * LABELS_PER_FRAME, max(1, units - wanted + 2 * LABELS_PER_FRAME)))
            here, there = max(0, first), min(units, first + wanted)
            at = (here - first) * LABEL_SAMPLES
            piece = self.sound[
                item["start"] + here * LABEL_SAMPLES : item["start"] + min(there * LABEL_SAMPLES, item["length"])
            ]
            gain = 10 ** rng.uniform(-0.35, 0.1)
            sound[row, at : at + len(piece)] = piece * np.float32(gain / 32768)
            labels[row, here - first : there - first] = self.labels[item["labels"] + here : item["labels"] + there]
        return torch.from_numpy(sound), torch.from_numpy(labels).view(count, frames, LABELS_PER_FRAME)


def start(module: nn.Module) -> None:
    """Random weights that keep activations at their size."""
    for name, value in module.named_parameters():
        last = name.rsplit(".", 1)[-1]
        with torch.no_grad():
            if last in {"scale1", "scale2"}:
                value.fill_(0.2)
            elif last == "bias":
                value.zero_()
            elif (".norm" in name and last == "weight") or last == "cluster_usage":
                value.fill_(1)
            else:
                fan = value[0].numel()
                if ".up." in name:
                    fan = 2 * value.shape[0]
                elif name.startswith("upsample"):
                    fan = 1
                gain = 0.3 if name == "decoder.last.weight" else 1.0
                value.normal_(0, gain / math.sqrt(fan))


class Trainee(nn.Module):
    """The codec with the heads that read phones."""

    def __init__(self, config: MimiConfig, phones: int) -> None:
        super().__init__()
        self.mimi = Mimi(config)
        start(self.mimi)
        for part in (self.mimi.quantizer.first, self.mimi.quantizer.rest):
            part.embedding_sum.requires_grad_(False)
            part.cluster_usage.requires_grad_(False)
        self.phones = phones
        self.from_first = nn.Linear(config.dim, LABELS_PER_FRAME * phones)
        self.from_features = nn.Linear(config.dim, LABELS_PER_FRAME // 2 * phones)
        self.spectra = Spectra()

    def forward(self, sound: Tensor, labels: Tensor, live: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Crops and their phones -> the loss, what it is made of (see `PARTS`) and the latents [N, dim]."""
        latents = self.analyse(sound)
        if live:
            q = quantise(latents, self.mimi.quantizer, learn=True)
            first, whole, commitment, distinct = q.first, q.whole, q.commitment, q.distinct
        else:
            (first, whole), commitment, distinct = unquantised(latents, self.mimi.quantizer), latents.new_zeros(()), 0.0
        parts = self.compare(first, whole, sound, labels)
        loss = (parts * parts.new_tensor(WEIGHTS)).sum() + 0.3 * commitment.float()
        told = torch.cat([parts.detach(), torch.tensor([float(commitment.detach()), distinct])])
        return loss, told, latents.detach().float().flatten(0, 1)

    def compile_parts(self) -> None:
        """Compile what takes the time; the quantizer, whose shapes depend on its data, stays as it is."""
        for part in ("analyse", "compare"):
            setattr(self, part, torch.compile(getattr(self, part)))

    def analyse(self, sound: Tensor) -> Tensor:
        """Samples [B, F * 1920] -> latents [B, F, dim]."""
        return codec_pass.latents(sound, self.mimi)

    def compare(self, first: Tensor, whole: Tensor, sound: Tensor, labels: Tensor) -> Tensor:
        """Quantised latents, by the first codebook and by all -> their four distances from the truth."""
        made, middle = codec_pass.sound(whole, self.mimi)
        mels, fines = self.spectra(made, sound)
        said_first = self._phones(self.from_first(first), labels)
        said = self._phones(self.from_features(middle), labels)
        return torch.stack([mels, fines, said_first, said])

    def _phones(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.float().reshape(-1, self.phones), labels.flatten(), ignore_index=NO_LABEL)


def train(
    data: Path, run: Path, steps: int, batch: int, frames: int, rate: float, voices: dict[str, float], compiled: bool
) -> None:
    """Train up to `steps` steps, RUN/codec.pt is written every 200 steps."""
    run.mkdir(parents=True, exist_ok=True)
    sentences = Sentences.read(data)
    rank, size = workers.join()
    torch.manual_seed(1)  # every worker starts alike, and replaces dead codewords alike
    trainee = Trainee(CONFIG, len(sentences.phones))
    learned = [p for p in trainee.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    step, file = 0, run / "codec.pt"
    if file.exists():
        kept = torch.load(file, weights_only=True)
        trainee.load_state_dict(kept["trainee"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
        torch.manual_seed(step)
    if compiled:
        trainee.compile_parts()
    weights = sentences.weights(voices)
    pool: list[Tensor] = []
    began, told, count = time.monotonic(), torch.zeros(len(PARTS)), 0
    log = (run / "codec.log").open("a") if rank == 0 else (run / f"codec.{rank}.log").open("w")
    print(
        f"# {vars_of(trainee)} {size} workers, steps {steps} batch {batch} frames {frames} rate {rate} {voices}",
        file=log,
        flush=True,
    )
    while step < steps:
        for group in optimizer.param_groups:
            group["lr"] = rate * scheduled(step, steps)
        sound, labels = sentences.crops(batch // size, frames, weights, np.random.default_rng([1, step, rank]))
        if step == LIVE:
            start_from(workers.gather(torch.cat(pool))[0][:, None], trainee.mimi.quantizer)
            pool.clear()
        with torch.autocast("cpu", torch.bfloat16):
            loss, parts, latents = trainee(sound, labels, step >= LIVE)
        if LIVE - COLLECT <= step < LIVE:
            pool.append(latents)
        _learn(loss, optimizer, learned)
        step, count, told = step + 1, count + 1, told + parts
        if step % 50 == 0:
            means = " ".join(f"{name} {value:.3f}" for name, value in zip(PARTS, told / count, strict=True))
            print(f"{step} {means} s {time.monotonic() - began:.0f}", file=log, flush=True)
            told, count = torch.zeros(len(PARTS)), 0
        if rank == 0 and (step % 200 == 0 or step == steps):
            state = {"trainee": trainee.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, file.with_suffix(".new"))
            file.with_suffix(".new").replace(file)


def _learn(loss: Tensor, optimizer: torch.optim.Optimizer, learned: list[nn.Parameter]) -> None:
    optimizer.zero_grad()
    loss.backward()
    workers.average_gradients(learned)
    nn.utils.clip_grad_norm_(learned, 5.0)
    optimizer.step()


def vars_of(module: nn.Module) -> dict[str, int]:
    return {"parameters": sum(p.numel() for p in module.parameters())}


def scheduled(step: int, steps: int) -> float:
    """Warm-up over 100 steps, then a cosine down to a hundredth."""
    return min(1.0, (step + 1) / 100) * (0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--compile", action="store_true", help="quicker steps after minutes of compiling; needs a C++ compiler"
    )
    parser.add_argument("--voices", default="kal16=4,low=2,high=2,slt=2,rms=1,awb=1,espeak=1")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    voices = {n: float(w) for n, w in (v.split("=") for v in o.voices.split(","))}
    train(o.data, o.run, o.steps, o.batch, o.frames, o.rate, voices, o.compile)


if __name__ == "__main__":
    main()
