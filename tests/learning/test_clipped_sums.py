"""Clipped sums against gradients one by one, hostile rows, and what models are refused for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra `learning`")

from torch import nn  # noqa: E402

from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.clipping import parts as clipping_parts  # noqa: E402
from unacorda.learning.clipping.arithmetic import block_of, rounding_of  # noqa: E402
from unacorda.learning.clipping.bounds import ClippingBound, Flat, Normalized, PerLayer  # noqa: E402
from unacorda.learning.clipping.parts import (  # noqa: E402
    GradientProducts,
    GradientRows,
    UnitWeights,
)
from unacorda.learning.clipping.sums import ClippedSums  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning"),
]


class Tied(nn.Module):  # type: ignore[misc]
    """One table at both ends, one layer twice, and operations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6, padding_idx=0)
        self.layer, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Any) -> Any:
        found = torch.relu_(self.layer(self.table(x)))
        return self.head(self.norm(self.layer(found)))


class Scaled(nn.Module):  # type: ignore[misc]
    """Parameters of its own, one of them a single number, with a layer inside."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.randn(size)), nn.Linear(size, size)
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale / self.temperature


class Bags(nn.Module):  # type: ignore[misc]
    """Bags of words in each mode, of one length and by offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.EmbeddingBag(11, 6, mode="sum", padding_idx=0)
        self.means = nn.EmbeddingBag(11, 6, mode="mean", padding_idx=0, include_last_offset=True)
        self.tops = nn.EmbeddingBag(11, 6, mode="max", padding_idx=0)
        self.score = nn.Linear(6, 1)

    def forward(self, x: Any) -> Any:
        found = self.sums(x, per_sample_weights=self.score(self.sums.weight.detach()[x])[:, :, 0])
        offsets = torch.arange(len(x)) * x.shape[1]
        ends = torch.cat([offsets, torch.tensor([x.numel()])])
        return found + self.means(x.flatten(), ends) * self.tops(x.flatten(), offsets)


class Folded(nn.Module):  # type: ignore[misc]
    """A layer that sees the tokens of all examples in one row."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 4), nn.Embedding(9, 4)

    def forward(self, x: Any) -> Any:
        flat = x.flatten(0, 1)
        index = (flat[:, 0] > 0).long()
        return (self.inner(flat) + self.outer(index)).unflatten(0, x.shape[:2])


class First(nn.Module):  # type: ignore[misc]
    """What a recurrent layer or attention gives, without the state."""

    def __init__(self, inner: Any, *, copies: int = 1) -> None:
        super().__init__()
        self.inner, self.copies = inner, copies

    def forward(self, x: Any) -> Any:
        batch_first = self.inner.batch_first
        given = x if batch_first else x.transpose(0, 1)
        found, state = self.inner(*[given] * self.copies)
        found = found if batch_first else found.transpose(0, 1)
        state = state[0] if isinstance(state, tuple) else state
        ends = [] if self.copies == 3 else [state.transpose(0, 1).flatten(1)]
        return torch.cat([found.flatten(1), *ends], 1)


class Crossed(nn.Module):  # type: ignore[misc]
    """Attention to something else than the query, with masks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.before = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        other = self.before(x)[:, :3]
        hidden = torch.zeros(len(x), 3, dtype=torch.bool)
        hidden[:, 2] = True
        mask = torch.zeros(x.shape[1], 3, dtype=torch.bool)
        mask[0, 1] = True
        found, shares = self.inner(x, other, other, key_padding_mask=hidden, attn_mask=mask)
        return torch.cat([found.flatten(1), shares.flatten(1)], 1)


class LowRank(nn.Module):  # type: ignore[misc]
    """A frozen layer with a trained update of low rank."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(5, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, x: Any) -> Any:
        return self.frozen(x) + self.up(self.down(x))


class Checkpointed(nn.Module):  # type: ignore[misc]
    """Activations that the backward pass computes again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        inner = lambda y: self.second(self.first(y).tanh())  # noqa: E731
        return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)


def images() -> Any:
    return torch.randn(5, 2, 8, 8)


def tokens() -> Any:
    return torch.randn(5, 4, 5)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "two layers": (
        lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)),
        lambda: torch.randn(6, 5),
    ),
    "one example": (lambda: nn.Linear(5, 3), lambda: torch.randn(1, 5)),
    "places as many as examples": (
        lambda: nn.Sequential(nn.Linear(5, 7), nn.RMSNorm(7), nn.Linear(7, 3)),
        lambda: torch.randn(6, 6, 5),
    ),
    "many places": (lambda: nn.Linear(3, 2), lambda: torch.randn(4, 30, 3)),
    "few wide places": (lambda: nn.Linear(40, 50), lambda: torch.randn(4, 3, 40)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.GroupNorm(2, 4),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, padding="same", groups=2, dilation=2),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        images,
    ),
    "an even kernel": (lambda: nn.Conv2d(2, 3, (2, 4), padding="same"), images),
    "valid": (lambda: nn.Conv2d(2, 3, 3, padding="valid", bias=False), images),
    "around a circle": (
        lambda: nn.Conv1d(2, 3, 4, padding=2, padding_mode="circular", dilation=2),
        lambda: torch.randn(5, 2, 9),
    ),
    "volumes": (lambda: nn.Conv3d(2, 3, 2, stride=2), lambda: torch.randn(5, 2, 4, 4, 4)),
    "tied": (Tied, lambda: torch.randint(0, 11, (6, 5))),
    "bags": (Bags, lambda: torch.randint(0, 11, (6, 5))),
    "parameters of its own": (
        lambda: nn.Sequential(nn.Linear(5, 4), Scaled(4)),
        lambda: torch.randn(6, 5),
    ),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 3), images),
    "bilinear norms": (
        lambda: nn.Sequential(nn.LayerNorm((3, 5)), nn.PReLU(3)),
        lambda: torch.randn(6, 3, 5),
    ),
    "folded": (Folded, lambda: torch.randn(6, 4, 5)),
    "lstm": (lambda: First(nn.LSTM(5, 4, num_layers=2, bidirectional=True, proj_size=3)), tokens),
    "gru": (lambda: First(nn.GRU(5, 4, batch_first=True, bidirectional=True)), tokens),
    "rnn": (lambda: First(nn.RNN(5, 4, nonlinearity="relu", bias=False)), tokens),
    "attention": (
        lambda: First(nn.MultiheadAttention(6, 3), copies=3),
        lambda: torch.randn(5, 4, 6),
    ),
    "attention across": (Crossed, lambda: torch.randn(5, 4, 6)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        lambda: torch.randn(5, 4, 6),
    ),
    "low rank": (LowRank, lambda: torch.randn(6, 5)),
    "checkpointed": (Checkpointed, lambda: torch.randn(6, 5)),
}


def made(name: str) -> tuple[Any, Any]:
    torch.manual_seed(len(name))
    model, rows = MODELS[name]
    return model(), rows()


def losses_of(model: Any, rows: Any, scale: float = 3.0) -> Any:
    return scale * model(rows).flatten(1).sin().sum(1)


def one_by_one(model: Any, rows: Any, *, unit: int = 1, **more: Any) -> list[dict[str, Any]]:
    """The gradient of each unit, in float64."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    own = [p for p in model.parameters() if p.requires_grad]
    found = []
    for start in range(0, len(rows), unit):
        loss = losses_of(model, rows[start : start + unit], **more).sum()
        each = torch.autograd.grad(loss, own, allow_unused=True)
        each = [torch.zeros_like(p) if g is None else g for g, p in zip(each, own, strict=True)]
        found.append({n: g.double() for n, g in zip(names, each, strict=True)})
    return found


def norm_of(gradient: dict[str, Any]) -> float:
    return float(torch.sqrt(sum(each.square().sum() for each in gradient.values())))


def clipped(gradients: list[dict[str, Any]], norm: float) -> dict[str, Any]:
    scaled = [
        {name: each * min(1.0, norm / max(norm_of(one), 1e-300)) for name, each in one.items()}
        for one in gradients
    ]
    return {name: sum(one[name] for one in scaled) for name in scaled[0]}


def assert_alike(found: dict[str, Any], truth: dict[str, Any], rtol: float = 3e-4) -> None:
    """Within rtol, the part by which norms are rounded up, of the largest number of the model."""
    largest = max(float(each.abs().max()) for each in truth.values())
    assert set(found) == set(truth)
    for name, each in truth.items():
        assert float((found[name] - each).abs().max()) <= rtol * largest, name


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_sums_are_those_of_gradients_one_by_one(name: str, arithmetic: Any) -> None:
    model, rows = made(name)
    gradients = one_by_one(model, rows)
    middle = sorted(map(norm_of, gradients))[len(gradients) // 2]
    for norm, rtol in ((1e6, 1e-6), (middle, 3e-4)):  # nothing is clipped; about half are
        sums = ClippedSums(model, bound=norm, arithmetic=arithmetic, units=len(rows))
        assert_alike(sums.sums(losses_of(model, rows)), clipped(gradients, norm), rtol)
        sums.close()
    assert_alike(one_by_one(model, rows)[0], gradients[0], 0.0)  # the model is as it was


@pytest.mark.parametrize("name", ["tied", "convolutions", "parameters of its own", "many places"])
def test_units_of_several_rows_are_clipped_as_one(name: str) -> None:
    model, rows = made(name)
    rows = rows[: len(rows) // 2 * 2]
    gradients = one_by_one(model, rows, unit=2)
    norm = norm_of(gradients[0]) / 2
    sums = ClippedSums(model, bound=norm)
    found = sums.sums(losses_of(model, rows), rows_per_unit=2)
    assert_alike(found, clipped(gradients, norm))


@pytest.mark.parametrize("name", MODELS)
def test_no_unit_moves_the_sum_by_more_than_the_bound(name: str) -> None:
    model, rows = made(name)
    for bound in (Flat(norm=0.3), Normalized(norm=0.3)):
        sums = ClippedSums(model, bound=bound)
        for scale in (1e-6, 1.0, 1e6):
            for place in range(min(3, len(rows))):
                found = sums.sums(losses_of(model, rows[place : place + 1], scale))
                assert norm_of(found) <= bound.sensitivity
        sums.close()


def test_layers_are_clipped_apart() -> None:
    model, rows = made("two layers")
    bound = PerLayer(norms={"0": 0.3, "2": 0.4, "2.bias": 1.2})
    assert bound.sensitivity == pytest.approx(1.3)
    sums = ClippedSums(model, bound=bound)
    found = sums.sums(losses_of(model, rows[:1], 1e6))
    assert norm_of({n: g for n, g in found.items() if n[0] == "0"}) == pytest.approx(0.3, rel=1e-3)
    assert norm_of({"2.bias": found["2.bias"]}) == pytest.approx(1.2, rel=1e-3)
    for norms in ({"0": 1.0}, {"0": 1.0, "2": 1.0, "head": 1.0}, {}):
        with pytest.raises(InvalidParameter, match="norms"):
            ClippedSums(model, bound=PerLayer(norms=norms))


class Halved(ClippingBound):
    """A bound of its own, whose weights are in float32."""

    sensitivity = 1.0

    def weights(self, squares: Any) -> Any:
        return dict.fromkeys(squares, torch.full_like(next(iter(squares.values())), 0.5).float())


@pytest.mark.parametrize("name", ["two layers", "few wide places", "tied", "convolutions"])
def test_bounds_of_ones_own_give_weights_of_any_type(name: str) -> None:
    model, rows = made(name)
    found = ClippedSums(model, bound=Halved()).sums(losses_of(model, rows))
    gradients = one_by_one(model, rows)
    truth = {key: sum(0.5 * one[key] for one in gradients) for key in found}
    assert_alike(found, truth, 1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_a_unit_that_is_not_finite_counts_nothing(bad: float) -> None:
    for name in ("two layers", "parameters of its own", "many places", "convolutions"):
        model, rows = made(name)
        spoilt = rows.clone()
        spoilt[1] = bad
        sums = ClippedSums(model, bound=1.0)
        found = sums.sums(losses_of(model, spoilt))
        others = torch.cat([rows[:1], rows[2:]])
        assert_alike(found, sums.sums(losses_of(model, others)), 1e-6)
        sums.close()


@pytest.mark.parametrize("units", [3, 64, 600])
@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_float32_loses_no_more_than_the_sensitivity_has_room_for(
    monkeypatch: pytest.MonkeyPatch, arithmetic: Any, units: int
) -> None:
    """Terms that float32 cannot add to each other, against sums in float64, by blocks and not."""
    torch.manual_seed(units)
    model = nn.Sequential(nn.Linear(9, 5), nn.LayerNorm(5))
    for own in model.parameters():
        nn.init.normal_(own, std=3.0)
    rows = torch.randn(units, 9) * torch.logspace(-3, 3, units)[:, None]
    sums = ClippedSums(model, bound=1.0, arithmetic=arithmetic, units=units)
    found = sums.sums(losses_of(model, rows))
    monkeypatch.setattr("unacorda.learning.clipping.sums.block_of", lambda *_: 1)
    truth = sums.sums(losses_of(model, rows))
    room = sums.sensitivity - 1
    lost = norm_of({name: found[name] - truth[name] for name in found})
    assert 0 < lost < (room if arithmetic == "float32" else room / 2) / 2
    terms = min((units + 4) * (units + 1), 516 * 513) / 3**0.5
    expected = 2 * terms / 2**24 * (arithmetic == "float32")
    assert room == pytest.approx(2**-10 + expected, rel=2e-3)


def depths(leaves: int) -> set[tuple[int, ...]]:
    """The depths of the leaves of each binary tree, in order of size."""
    if leaves == 1:
        return {(0,)}
    return {
        tuple(sorted(1 + depth for side in (left, right) for depth in side))
        for first in range(1, leaves)
        for left in depths(first)
        for right in depths(leaves - first)
    }


def roundings(block: int) -> int:
    """The sum of the squares of how often terms are rounded that are added one after another."""
    return block**2 + sum(k**2 for k in range(2, block + 1))


def test_no_order_of_additions_rounds_more_than_one_after_another() -> None:
    for block in range(1, 9):
        assert roundings(block) == max(sum((d + 1) ** 2 for d in tree) for tree in depths(block))


def lost_of_blocks(block: int, units: int) -> float:
    """What sums of units of norm 1 may be off by, in blocks, two of which may be added."""
    return units * (math.sqrt(roundings(block) / block) + 1) * 2**-24 * (1 + 2**-14)


def test_blocks_have_room_for_their_rounding() -> None:
    for units in (1, 2, 31, 63, 255, 256, 511, 512, 2000, 4096, 60_000):
        for arithmetic, room in (("float64", 2**-11), ("float32", rounding_of("float32", units))):
            block = block_of(arithmetic, units)  # type: ignore[arg-type]
            assert 1 <= block <= 512
            # One is a sum in float64. Neighbors have one more unit, and both sums are off.
            assert block == 1 or 2 * lost_of_blocks(block, units + 1) <= room
    assert [block_of("float64", units) for units in (64, 256, 512, 4096)] == [64, 23, 9, 1]
    assert [block_of("float32", units) for units in (32, 512, 1024, 4096)] == [32, 512, 254, 60]


def hostile_terms(kind: str) -> tuple[Any, Any]:
    """Terms whose partial sums are as long as can be, or of all magnitudes, or cancel."""
    torch.manual_seed(1)
    left, right = torch.randn(64, 7), torch.randn(64, 300)
    if kind == "alike":
        left, right = left[:1].expand(64, -1) * 1.0, right[:1].expand(64, -1) * 1.0
    elif kind == "magnitudes":
        left = left * torch.logspace(-18, 18, 64)[:, None]
    else:
        left[1::2], right[1::2] = -left[::2], right[::2] * (1 + 2**-20)
    return left, right


@pytest.mark.parametrize("kind", ["alike", "magnitudes", "cancel"])
@pytest.mark.parametrize("block", [1, 3, 16, 61, 64])
def test_sums_of_blocks_are_off_by_no_more_than_is_proved(kind: str, block: int) -> None:
    left, right = hostile_terms(kind)
    norms = left.double().norm(dim=1) * right.double().norm(dim=1)
    weights = 1 / norms.clamp(min=1.0)
    scaled = (left * weights.float()[:, None]).double()  # of a unit alone, and no longer than 1
    assert float((scaled.norm(dim=1) * right.double().norm(dim=1)).max()) < 1 + 2**-20
    products = GradientProducts(left[:, None], right[:, None], torch.Size((7, 300)))
    rows_of = products.rows()
    for part in (products, GradientRows([rows_of]), GradientRows(rows_of.split(7))):
        total = torch.zeros(7, 300, dtype=torch.float64)
        part.add_to(total, UnitWeights(weights), block=block)
        rows = part.rows().double()
        truth = torch.einsum("i,ijk->jk", weights, rows)
        allowed = lost_of_blocks(block, len(left)) if block > 1 else 0
        # Weights and products of a unit alone are rounded once each: a unit's own affair.
        own = 4 * 2**-24 * float((weights[:, None, None] * rows.abs()).sum(0).norm())
        assert float((total - truth).norm()) <= allowed + own + 1e-9


def test_more_places_than_rounding_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, rows = made("few wide places")
    sums = ClippedSums(model, bound=1.0)
    monkeypatch.setattr("unacorda.learning.clipping.arithmetic._LARGEST", 4 * 4 * 3)
    sums.sums(losses_of(model, rows))
    monkeypatch.setattr("unacorda.learning.clipping.arithmetic._LARGEST", 4 * 4 * 3 - 1)
    with pytest.raises(InvalidParameter, match=r"4 units of 3 places.*at most 3 units at once"):
        sums.sums(losses_of(model, rows))


def test_float32_needs_the_number_of_units() -> None:
    with pytest.raises(InvalidParameter, match="units"):
        ClippedSums(nn.Linear(3, 2), bound=1.0, arithmetic="float32")
    with pytest.raises(InvalidParameter, match="arithmetic"):
        ClippedSums(nn.Linear(3, 2), bound=1.0, arithmetic="float16")  # type: ignore[arg-type]
    model = nn.Linear(3, 2)
    sums = ClippedSums(model, bound=1.0, arithmetic="float32", units=4)
    with pytest.raises(InvalidParameter, match="4 units at most"):
        sums.sums(losses_of(model, torch.randn(5, 3)))


def test_sums_are_added_to_those_of_other_batches() -> None:
    model, rows = made("tied")
    sums = ClippedSums(model, bound=1.0)
    held = sums.no_sums()
    first, second = (sums.sums(losses_of(model, some)) for some in (rows[:2], rows[2:]))
    for some in (rows[:2], rows[2:]):
        assert sums.sums(losses_of(model, some), into=held) is held
    assert_alike(held, {name: first[name] + second[name] for name in first}, 1e-12)
    again = sums.sums(losses_of(model, rows[:2]), memory=held)
    assert all(again[name] is held[name] for name in held)
    assert_alike(again, first, 0.0)


def test_rows_of_weight_0_fill_a_batch_up() -> None:
    model, rows = made("two layers")
    sums = ClippedSums(model, bound=1.0)
    weights = torch.tensor([1.0, 1, 1, 1, 0, 0])
    found = sums.sums(losses_of(model, rows), weights)
    assert_alike(found, sums.sums(losses_of(model, rows[:4])), 1e-6)
    assert norm_of(sums.sums(losses_of(model, rows), 0 * weights)) == 0.0


def test_places_that_cancel_are_not_underestimated() -> None:
    layer, size = nn.Linear(64, 64, bias=False), 1e3
    rows = torch.randn(1, 2, 64) * size
    rows[:, 1] = rows[:, 0] * (1 + 1e-7)
    sign = torch.tensor([1.0, -1.0])[None, :, None]
    sums = ClippedSums(layer, bound=1.0)
    found = sums.sums((layer(rows) * sign * size).sum((1, 2)))
    assert norm_of(found) <= 1.0


def test_autocast_sums_what_it_clips() -> None:
    model, rows = made("two layers")
    sums = ClippedSums(model, bound=0.3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = losses_of(model, rows[:1], 50.0)
    found = sums.sums(losses.float())
    assert 0.29 < norm_of(found) <= 0.3


def test_sums_under_autocast_are_bounded() -> None:
    layer = nn.Linear(64, 64, bias=False)
    sums = ClippedSums(layer, bound=1.0)
    first, other = torch.randn(64), torch.randn(64)
    rows = torch.stack([first, first + 0.02 * other])[None]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given = layer(rows).float()
        found = sums.sums((given[:, 0] - given[:, 1]) @ (1e3 * torch.randn(64)))
    assert 0.5 < norm_of(found) <= 1.0


def test_a_short_format_of_products_moves_no_sum() -> None:
    layer = nn.Linear(512, 512, bias=False)
    sums, rows = ClippedSums(layer, bound=1.0), torch.randn(4, 64, 512)
    direction = torch.randn(64, 512)

    def found() -> Any:
        return sums.sums((layer(rows) * direction).sum((1, 2)))

    plain = found()
    torch.set_float32_matmul_precision("medium")
    try:
        short = found()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert_alike(short, plain, 1e-6)


class Products(nn.Module):  # type: ignore[misc]
    """Parameters of its own alone."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Parameter(torch.randn(300)) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return (x * self.one).sum(-1) + (x * self.other).sum(-1)


@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_copies_in_half_precision_are_bounded(kind: Any, arithmetic: Any) -> None:
    model = Products().to(kind)
    sums = ClippedSums(model, bound=1.0, arithmetic=arithmetic, units=256)
    for seed in range(20):
        torch.manual_seed(seed)
        assert norm_of(sums.sums(7 * model(torch.randn(1, 300).to(kind)).float())) <= 1.0
    rows = torch.randn(1, 300).to(kind).expand(256, 300)
    found = [sums.sums(7 * model(some).float()) for some in (rows, rows[1:])]
    moved = {name: values - found[1][name] for name, values in found[0].items()}
    assert norm_of(moved) <= sums.sensitivity


@pytest.mark.parametrize(("places", "size"), [(1, 1), (2, 1), (2, 40)])
def test_squares_that_underflow_are_not_lost(places: int, size: int) -> None:
    layer = nn.Linear(size, size, bias=False)
    with torch.no_grad():
        layer.weight.zero_()
    sums = ClippedSums(layer, bound=1e-6)
    rows = torch.full((1, places, size), 1.8e19 / size)
    assert norm_of(sums.sums((layer(rows) * 2.5e-23).sum((1, 2)))) <= 1e-6


@pytest.mark.parametrize("bound", [1e-9, 1e-3, 1.0])
def test_weights_times_gradients_that_underflow_are_not_rounded_up(bound: float) -> None:
    """A huge input, and gradients that are small enough for their weighted ones to be subnormal."""
    model = nn.Linear(1, 64, bias=False)
    nn.init.zeros_(model.weight)
    sums = ClippedSums(model, bound=bound)
    for power in range(100, 128):
        rows = torch.tensor([[2.0**power], [0.0]])
        for length in (56, 60):
            losses = (model(rows) * 2.0 ** (length - power)).sum(1)
            assert norm_of(sums.sums(losses)) <= sums.sensitivity


def test_products_that_are_known_in_float32_are_used_where_terms_are_no_longer_than_units() -> None:
    drawn = torch.Generator().manual_seed(1)
    gradients, own = torch.randn(5, 3, generator=drawn), torch.rand(5, generator=drawn).double()
    weights, exact = UnitWeights(own), (gradients.double() * own[:, None]).sum(0)
    weights.scaled(gradients, wide=False)
    for block, off in ((0, 1e-14), (8, 1e-6)):
        total = torch.zeros(3, dtype=torch.float64)
        GradientRows([gradients]).add_to(total, weights, block=block)
        assert float((total - exact).abs().max()) <= off
    assert not torch.equal(total, exact)  # the float32 product was used


def test_others_long_bags_move_no_norm() -> None:
    bag = nn.EmbeddingBag(5000, 4, mode="sum")
    sums = ClippedSums(bag, bound=1e-3)

    def found(lengths: list[int]) -> Any:
        index = torch.cat([torch.arange(length) for length in lengths])
        offsets = torch.tensor([0, *lengths[:-1]]).cumsum(0)
        return sums.square_norms(bag(index, offsets).sum(1))

    assert torch.equal(found([9, 9, 9])[:2], found([9, 9, 4000])[:2])


def test_what_is_frozen_and_thawed_is_seen() -> None:
    model, rows = made("two layers")
    sums = ClippedSums(model, bound=1e6)
    model[0].requires_grad_(False)
    assert set(sums.sums(losses_of(model, rows))) == {"2.weight", "2.bias"}
    model[0].requires_grad_(True)
    assert_alike(sums.sums(losses_of(model, rows)), clipped(one_by_one(model, rows), 1e6), 1e-6)
    with torch.no_grad():
        model(rows)  # an evaluation in between leaves nothing behind
    assert_alike(sums.sums(losses_of(model, rows)), clipped(one_by_one(model, rows), 1e6), 1e-6)


def stacked(model: Any, rows: Any) -> Any:
    first, second = model(torch.cat([rows, rows + 1])).chunk(2)
    return first.square().sum(1) + second.sum(1)


def contrasted(model: Any, rows: Any) -> Any:
    given = model(rows)
    return nn.functional.cross_entropy(given @ given.T, torch.arange(len(rows)), reduction="none")


def centered(model: Any, rows: Any) -> Any:
    given = model(rows)
    return (given - given.mean(0)).square().sum(1)


@pytest.mark.parametrize("losses", [stacked, contrasted, centered])
def test_losses_that_mix_examples_are_refused(losses: Any) -> None:
    sums = ClippedSums(nn.Linear(5, 4), bound=1.0)
    with pytest.raises(InvalidParameter, match="of one example alone"):
        sums.sums(losses(sums.model, torch.randn(6, 5)))


def test_views_next_to_each_other_are_one_example() -> None:
    model, rows = nn.Linear(5, 4), torch.randn(6, 5)
    sums = ClippedSums(model, bound=1e6)
    given = model(torch.stack([rows, rows + 1], 1).flatten(0, 1)).unflatten(0, (6, 2))
    found = sums.sums(given.square().sum((1, 2)))
    sums.close()
    (model(rows).square().sum() + model(rows + 1).square().sum()).backward()
    assert torch.allclose(found["weight"].float(), model.weight.grad, rtol=1e-4)


class Outside(nn.Module):  # type: ignore[misc]
    """Uses a weight that a module holds by a product of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        return self.layer(x) + x @ self.layer.weight


class Unused(Outside):
    """Calls the module, and uses its weight elsewhere alone."""

    def forward(self, x: Any) -> Any:
        self.layer(x)
        return x @ self.layer.weight


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "batch norm": (lambda: nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), "GroupNorm"),
    "instance norm": (lambda: nn.InstanceNorm1d(3, track_running_stats=True), "track_running"),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)), "spectral"),
    "old spectral norm": (lambda: nn.utils.spectral_norm(nn.Linear(5, 3)), "spectral"),
    "renormed table": (lambda: nn.Embedding(5, 3, max_norm=1.0), "max_norm"),
    "by frequency": (lambda: nn.Embedding(5, 3, scale_grad_by_freq=True), "frequencies"),
    "frozen": (lambda: nn.Linear(5, 3).requires_grad_(False), "trained"),
    "no module": (lambda: 3, "torch.nn.Module"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_mix_examples_are_refused_by_name(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(InvalidParameter, match=words):
        ClippedSums(make(), bound=1.0)


@pytest.mark.parametrize("kind", [Outside, Unused])
@pytest.mark.parametrize("autocast", [False, True])
def test_weights_outside_their_modules_are_refused(kind: Any, autocast: bool) -> None:
    model = kind()
    sums = ClippedSums(model, bound=1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        losses = losses_of(model, torch.randn(4, 5)).float()
    with pytest.raises(InvalidParameter, match=r"layer\.weight"):
        sums.sums(losses)


def test_losses_of_a_backward_pass_and_complex_parameters_are_refused_by_name() -> None:
    model = nn.Linear(3, 2)
    clipped = ClippedSums(model, bound=1.0)
    losses = model(torch.ones(4, 3)).square().sum(1)
    losses.sum().backward()
    with pytest.raises(
        InvalidParameter, match=r"losses='after a backward pass'.*step\(\) makes it"
    ):
        clipped.sums(losses)
    with pytest.raises(InvalidParameter, match=r"model='weight: complex'.*real"):
        ClippedSums(nn.Linear(3, 2, dtype=torch.complex64), bound=1.0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of what is traced
@pytest.mark.parametrize("whole", [True, False])
def test_sums_of_compiled_models_are_those_of_plain_ones(whole: bool) -> None:
    torch.manual_seed(1)
    layers = [nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)]
    rows, block = torch.randn(9, 3), nn.Sequential(*layers[:3])
    plain = ClippedSums(nn.Sequential(*layers), bound=0.3)
    expected = plain.sums(plain.model(rows).square().sum(1)).values()
    plain.close()
    model = (
        torch.compile(nn.Sequential(*layers), backend="aot_eager")
        if whole
        else nn.Sequential(torch.compile(block, backend="aot_eager"), *layers[3:])
    )
    found = ClippedSums(model, bound=0.3).sums(model(rows).square().sum(1)).values()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_losses_are_one_number_an_example() -> None:
    model, rows = made("two layers")
    sums = ClippedSums(model, bound=1.0)
    for wrong in (model(rows), model(rows).mean(), 3.0, model(rows).argmax(1), torch.ones(6)):
        with pytest.raises(InvalidParameter, match="losses"):
            sums.sums(wrong)
    losses = losses_of(model, rows)
    sums.sums(losses)
    with pytest.raises((InvalidParameter, RuntimeError)):  # a second backward pass
        sums.sums(losses)
    with pytest.raises(InvalidParameter, match="first size"):
        sums.sums(losses_of(model, rows)[:4])


def forgets_a_use(patch: pytest.MonkeyPatch) -> None:
    one: Any = clipping_parts.square_norms
    patch.setattr(
        "unacorda.learning.clipping.sums.square_norms", lambda parts, _: one(parts[:1], {})
    )


def weighs_after_the_sum(patch: pytest.MonkeyPatch) -> None:
    def add_to(self: Any, total: Any, weights: Any, **_: Any) -> None:
        total += self.rows().double().sum(0) * weights.values.mean()

    patch.setattr(clipping_parts.GradientProducts, "add_to", add_to)


def multiplies_infinity_by_0(patch: pytest.MonkeyPatch) -> None:
    for kind in (clipping_parts.GradientRows, clipping_parts.GradientProducts):
        patch.setattr(kind, "only", lambda self, examples: self)


def clips_too_far_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("unacorda.learning.clipping.bounds._NORM_ERROR", 1 - 2.0**-8)


def norms_in_half_precision(patch: pytest.MonkeyPatch) -> None:
    exact = clipping_parts._squared
    patch.setattr(clipping_parts, "_squared", lambda *own: exact(*own).bfloat16().to(torch.float64))


FAULTS = {
    forgets_a_use: lambda: test_sums_are_those_of_gradients_one_by_one("tied", "float64"),
    weighs_after_the_sum: lambda: test_sums_are_those_of_gradients_one_by_one(
        "two layers", "float32"
    ),
    multiplies_infinity_by_0: lambda: test_a_unit_that_is_not_finite_counts_nothing(float("inf")),
    clips_too_far_out: lambda: test_no_unit_moves_the_sum_by_more_than_the_bound("two layers"),
    norms_in_half_precision: lambda: [
        test_no_unit_moves_the_sum_by_more_than_the_bound(name) for name in MODELS
    ],
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        FAULTS[fault]()  # type: ignore[no-untyped-call]


def test_a_copy_of_a_model_in_training_is_a_model_of_its_own() -> None:
    torch.manual_seed(3)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    model = nn.ModuleDict({"scaled": Scaled(4), "attention": attention, "head": nn.Linear(4, 2)})

    def losses(of: Any, x: Any) -> Any:
        scaled = of["scaled"](x)
        return of["head"](of["attention"](scaled, scaled, scaled)[0].mean(1)).square().sum(1)

    x = torch.randn(5, 3, 4)
    clipped = ClippedSums(model, bound=0.5)
    wanted = clipped.sums(losses(model, x))
    losses(model, x)
    copied = copy.deepcopy(model)
    clipped.forget()
    torch.nn.init.constant_(copied["head"].bias, 7.0)
    for weights in copied.parameters():
        weights.data.mul_(2.0)
    assert not torch.allclose(losses(copied, x), losses(model, x))
    clipped.forget()
    losses(copied, x).sum().backward()
    assert all(weights.grad is not None for weights in copied.parameters())
    assert all(weights.grad is None for weights in model.parameters())
    found = clipped.sums(losses(model, x))
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    with torch.no_grad():
        for weights in (*copied["attention"].parameters(), copied["head"].bias):
            weights.zero_()
        assert not losses(copied, x).any()
