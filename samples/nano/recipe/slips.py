"""What goes wrong in the calls that the model is told in training: no call is met twice, and none is flawless.

The caller is half heard, as another voice on a worse line would be. The agent has misspoken now and then, as the model
itself will have.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from personaplex.core.config import AGENT, EPAD, PAD, USER

ASTRAY = 0.2  # of the frames of a call, at most, those from which on the agent has spoken other sounds
DEAF_SHARE = 0.7  # of the calls that only teach to read, those in which all of its sounds are others
SLIPS = 0.04  # of the agent's codes, those that are read wrong
WRONG_WORDS, STRAY_WORDS = 0.03, 0.002  # of the words of a call, and of its pauses, those that are read as another word
WORDS_FROM = 260  # the first id behind signs and bytes
NOISE = 0.06  # of the caller's codes
NEAR, NEAR_SHARE = 4, 0.15  # how many codes are like one, and the caller's codes that are read as one of them
COARSE_SHARE = 0.5  # of the calls, those in which only some of the caller's codebooks are heard
HOLES_SHARE, HOLE = 0.7, 3  # calls with holes in the caller's sound, and their frames
HOLES = {True: 0.1, False: 0.4}  # at most so many a frame, where the caller is all that is heard and elsewhere


def with_slips(
    columns: Tensor, live: Tensor, near: Tensor, vocabulary: int, *, alone: bool, deaf: bool = False
) -> Tensor:
    """Columns int64 [B, T, 17] with what goes wrong; `live` bool [B, T] are those of the call.

    near: int64 [8, audio vocabulary, N], the codes that are most like each. alone: the caller is all that is heard.
    deaf: in most calls the agent hears nothing true of its own.
    """
    slipped = columns.clone()
    slipped[..., 0] = _misread(columns[..., 0], live, vocabulary)
    slipped[..., AGENT] = _astray(columns[..., AGENT], DEAF_SHARE if deaf else 0.0)
    slipped[..., USER] = _half_heard(columns[..., USER], near, HOLES[alone])
    for part, share in ((AGENT, SLIPS), (USER, NOISE)):
        codes = slipped[..., part]
        wrong = torch.randint_like(codes, near.shape[1])
        slipped[..., part] = torch.where(torch.rand(codes.shape) < share, wrong, codes)
    return slipped


def _misread(text: Tensor, live: Tensor, vocabulary: int) -> Tensor:
    """The text [B, T] with words in the call that it should not have said: it is to get back on track after one."""
    shares = torch.where((text == PAD) | (text == EPAD), STRAY_WORDS, WRONG_WORDS)
    wrong = live & (torch.rand(text.shape) < shares)
    return torch.where(wrong, torch.randint_like(text, WORDS_FROM, vocabulary), text)


def _astray(codes: Tensor, deaf: float) -> Tensor:
    """The agent's codes [B, T, 8] with sounds of other times: what it says shall follow from its words and the prompt.

    The codes of training are the same each time and tell what comes next. A model that trusts them is lost once its own
    differ.
    """
    count, steps = codes.shape[:2]
    holes = _holes(torch.rand(count, steps) < ASTRAY * torch.rand(count, 1)) | (torch.rand(count, 1) < deaf)
    return torch.where(holes[..., None], codes[:, torch.randperm(steps)], codes)


def _half_heard(codes: Tensor, near: Tensor, most: float) -> Tensor:
    """The caller's codes [B, T, 8] as another voice might have had them, coarser and with holes."""
    count, steps, levels = codes.shape
    nothing = near.shape[1]
    like = near[torch.arange(levels), codes.clamp(max=nothing - 1), torch.randint(near.shape[2], codes.shape)]
    codes = torch.where((torch.rand(codes.shape) < NEAR_SHARE) & (codes < nothing), like, codes)
    kept = torch.where(torch.rand(count) < COARSE_SHARE, torch.randint(1, levels, (count,)), levels)
    starts = (torch.rand(count, steps) < most * torch.rand(count, 1)) & (torch.rand(count, 1) < HOLES_SHARE)
    unheard = _holes(starts)[..., None] | (torch.arange(levels) >= kept[:, None, None])
    return torch.where(unheard, nothing, codes)


def _holes(starts: Tensor) -> Tensor:
    """The frames bool [B, T] of holes that start where `starts` says."""
    return F.max_pool1d(F.pad(starts.float(), (HOLE - 1, 0)), HOLE, 1) > 0
