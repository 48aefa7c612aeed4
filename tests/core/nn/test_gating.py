import torch

from personaplex.core.nn.gating import gated_feedforward


def test_the_first_half_gates_the_second() -> None:
    generator = torch.Generator().manual_seed(0)
    x, first, second, out = (torch.randn(shape, generator=generator) for shape in ((2, 3, 4), (6, 4), (6, 4), (4, 6)))
    gate = x @ first.T
    expected = (gate / (1 + torch.exp(-gate)) * (x @ second.T)) @ out.T
    torch.testing.assert_close(gated_feedforward(x, torch.cat([first, second]), out), expected)
