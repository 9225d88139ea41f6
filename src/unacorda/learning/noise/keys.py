"""Keys of training noise: one secret from which the noise of every step follows."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from unacorda.bits import KeyedBits, RandomBits, source_of

__all__ = ["NoiseKey"]

_RENEWED = 99


@dataclass(frozen=True, slots=True, repr=False)
class NoiseKey:
    """The secret that all coins and all noise of a run follow from.

    An attacker who has it and a released model can subtract the noise: it is saved apart, for its
    owner alone. secure: whether it came from secure bits.
    """

    secret: bytes
    secure: bool

    @classmethod
    def drawn(cls, bits: RandomBits | None = None) -> NoiseKey:
        """Draw a secret of 32 bytes from secure bits, or in a test from others."""
        source = source_of(bits)
        return cls(source.words(4).tobytes(), source.secure)

    def renewed(self, label: int) -> NoiseKey:
        """Draw another secret; in a test, where bits are seeded, from this one and a label."""
        if self.secure:
            return NoiseKey.drawn()
        return NoiseKey(self.stream(_RENEWED, label).words(4).tobytes(), secure=False)

    def stream(self, *labels: int) -> KeyedBits:
        """Return the bits of these labels, the same at each call."""
        return KeyedBits(self.secret, *labels, secure=self.secure)

    def __repr__(self) -> str:
        return "NoiseKey(...)"
