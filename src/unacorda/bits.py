"""Random bits: the protocol every sampler draws from, and five sources of it.

A source hands out 64-bit words. What it is fit for is its type, never a flag somebody forgot to
set: `SecureBits` and `SystemBits` are for private releases, `SeededBits` and `ScriptedBits` are
for tests, and their ``secure`` is False, so that whatever endures can refuse them.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter

__all__ = [
    "KeyedBits",
    "RandomBits",
    "ScriptedBits",
    "SecureBits",
    "SeededBits",
    "SystemBits",
    "fair_coins",
    "source_of",
]

_BLOCK = 16
_BLOCKS_PER_KEY = 1 << 30
_PIECE = 1 << 20  # bytes enciphered at once; bounds the memory of the all-zero plaintext
_ZEROS = bytes(_PIECE)
_WORD = (1 << 64) - 1


@runtime_checkable
class RandomBits(Protocol):
    """A source of independent fair bits.

    secure: True where the bits are fit for a private release.
    """

    @property
    def secure(self) -> bool:
        """Whether noise made of these bits gives privacy."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of 64 fair bits, as a fresh array that may be written to."""
        ...

    def below(self, bound: int) -> int:
        """An integer, exactly uniform on {0, ..., bound - 1}."""
        ...


class _Keystream:
    """The AES-256-CTR keystream under one key, and how much of it has been used."""

    __slots__ = ("_encryptor", "blocks_left")

    def __init__(self, key: bytes) -> None:
        # The counter starts at zero: a key is used for one stream only, so no nonce is needed.
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(_BLOCK))).encryptor()
        self.blocks_left = _BLOCKS_PER_KEY

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn: NDArray[np.uint64] = np.empty(count, dtype="<u8")
        room = drawn.view(np.uint8).data
        for start in range(0, 8 * count, _PIECE):
            length = min(_PIECE, 8 * count - start)
            zeros = _ZEROS if length == _PIECE else _ZEROS[:length]
            self._encryptor.update_into(zeros, room[start : start + length])
        self.blocks_left -= 8 * count // _BLOCK + 1
        return drawn.astype(np.uint64, copy=False)


class _Generation:
    """Counts the forks between the first process and this one."""

    __slots__ = ("forks",)

    def __init__(self) -> None:
        self.forks = 0

    def advance(self) -> None:
        self.forks += 1


_GENERATION = _Generation()
if hasattr(os, "register_at_fork"):  # absent on Windows, where there is no fork
    os.register_at_fork(after_in_child=_GENERATION.advance)


class _Local(threading.local):
    """One thread's stream; a new thread finds it empty."""

    stream: _Keystream | None = None
    owner: tuple[int, int] = (-1, -1)


class SecureBits:
    """Cryptographic bits: the AES-256-CTR keystream under a key of the operating system.

    The key is drawn from ``os.urandom`` at first use. Every thread has its own key, a forked child
    draws new ones, and a key is replaced after 2^30 blocks. Neither copy nor pickle is possible,
    so no stream of noise is ever used twice.

    >>> SecureBits().secure
    True
    >>> 0 <= SecureBits().below(6) < 6
    True
    """

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = _Local()

    @property
    def secure(self) -> bool:
        """True: these bits are fit for a private release."""
        return True

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of 64 fair bits.

        Raises InvalidParameter where the count is no whole number, 0 or above.
        """
        count = _counted(count)
        local = self._local
        # The hook sees forks made by Python, the process number those made below it.
        owner = (_GENERATION.forks, os.getpid())
        stream = local.stream
        if stream is None or local.owner != owner or stream.blocks_left <= 0:
            stream = local.stream = _Keystream(os.urandom(32))
            local.owner = owner
        return stream.words(count)

    def below(self, bound: int) -> int:
        """An integer, exactly uniform on {0, ..., bound - 1}."""
        return _below(self, bound)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        _refuse()

    def __repr__(self) -> str:
        return "SecureBits()"


class SystemBits:
    """Bits of the operating system alone, about a tenth as fast as `SecureBits`.

    For those who would rather trust ``os.urandom`` than a keystream in the process. It holds no
    state, so forks, threads and copies share nothing.

    >>> SystemBits().words(3).size
    3
    """

    __slots__ = ()

    @property
    def secure(self) -> bool:
        """True: these bits are fit for a private release."""
        return True

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of 64 fair bits."""
        return np.frombuffer(bytearray(os.urandom(8 * _counted(count))), dtype=np.uint64)

    def below(self, bound: int) -> int:
        """An integer, exactly uniform on {0, ..., bound - 1}."""
        return _below(self, bound)

    def __repr__(self) -> str:
        return "SystemBits()"


class SeededBits:
    """The same keystream under a key that follows from a seed: for tests, never for privacy.

    With the seed the noise can be subtracted. One object is one stream, to be used by one thread;
    the same calls in the same order give the same words on every machine.

    Parameters
    ----------
    seed
        Any whole number.

    Raises
    ------
    InvalidParameter
        For a seed that is no whole number.

    Examples
    --------
    >>> bool((SeededBits(7).words(4) == SeededBits(7).words(4)).all())
    True
    >>> SeededBits(7).secure
    False
    """

    __slots__ = ("_seed", "_stream")

    def __init__(self, seed: int) -> None:
        try:
            self._seed = operator.index(seed)
        except TypeError:
            raise InvalidParameter("seed", seed, expected="a whole number") from None
        self._stream = _Keystream(sha256(b"unacorda seeded bits %d" % self._seed).digest())

    @property
    def secure(self) -> bool:
        """False: noise made of these bits gives no privacy."""
        return False

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw the next words of the stream that the seed fixes.

        Parameters
        ----------
        count
            How many, 0 or above.

        Returns
        -------
        ndarray
            Words of 64 bits.
        """
        return self._stream.words(_counted(count))

    def below(self, bound: int) -> int:
        """Draw an integer, exactly uniform on {0, ..., bound - 1} over the choice of the key.

        Parameters
        ----------
        bound
            A whole number, 1 or above.

        Returns
        -------
        int
            The next number of the stream that the seed fixes.
        """
        return _below(self, bound)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        msg = "SeededBits holds a position in a stream; make a new one from the seed instead."
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"SeededBits({self._seed})"


class KeyedBits:
    """The same keystream under a key that follows from a secret and labels, for each label anew.

    Noise that has to come again, such as that of a step in noise correlated over steps, is drawn so
    from (secret, label). secret: at least 16 bytes; secure: whether these came from secure bits.

    >>> secret = bytes(range(32))
    >>> same = [KeyedBits(secret, 3, 1, secure=False).words(2).tolist() for _ in range(2)]
    >>> same[0] == same[1] != KeyedBits(secret, 3, 2, secure=False).words(2).tolist()
    True
    """

    __slots__ = ("_secure", "_stream")

    def __init__(self, secret: bytes, *labels: int, secure: bool) -> None:
        if len(secret) < _BLOCK:
            raise InvalidParameter("secret", None, expected=f"at least {_BLOCK} bytes")
        text = b",".join(b"%d" % operator.index(label) for label in labels)
        named = sha256(b"unacorda keyed bits %d:" % len(secret) + secret + text)
        self._stream = _Keystream(named.digest())
        self._secure = bool(secure)

    @property
    def secure(self) -> bool:
        """Whether the secret came from secure bits."""
        return self._secure

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of the stream of these labels."""
        return self._stream.words(_counted(count))

    def below(self, bound: int) -> int:
        """An integer, exactly uniform on {0, ..., bound - 1} over the choice of the secret."""
        return _below(self, bound)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        _refuse()


class ScriptedBits:
    """Given words in the given order, then another source: for replay and for edge cases.

    words: integers in [0, 2^64); then: the source that goes on after them. Without one, a draw
    beyond the script raises IndexError, so a test sees exactly how many words a sampler takes.

    >>> ScriptedBits([1, 2, 3], then=SeededBits(0)).words(2).tolist()
    [1, 2]
    """

    __slots__ = ("_position", "_then", "_words")

    def __init__(self, words: Iterable[int], *, then: RandomBits | None = None) -> None:
        script = [operator.index(word) for word in words]
        if any(not 0 <= word <= _WORD for word in script):
            raise InvalidParameter("words", None, expected="integers from 0 to 2^64 - 1")
        self._words = np.array(script, dtype=np.uint64)
        self._position = 0
        self._then = then

    @property
    def secure(self) -> bool:
        """False: noise made of these bits gives no privacy."""
        return False

    @property
    def left(self) -> int:
        """How many words of the script have not been drawn yet."""
        return self._words.size - self._position

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of the script, then of the source behind it."""
        count = _counted(count)
        given = self._words[self._position : self._position + count].copy()
        if given.size < count:
            if self._then is None:
                msg = f"the script of {self._words.size} words has run out"
                raise IndexError(msg)
            given = np.concatenate([given, self._then.words(count - given.size)])
        self._position = min(self._position + count, self._words.size)
        return given

    def below(self, bound: int) -> int:
        """An integer on {0, ..., bound - 1} from the next words of the script."""
        return _below(self, bound)


def source_of(bits: object) -> RandomBits:
    """The source that an argument `bits` names: None is `SecureBits()`; else InvalidParameter.

    >>> source_of(None)
    SecureBits()
    """
    if bits is None:
        return SecureBits()
    if isinstance(bits, SecureBits | SeededBits):  # asking the protocol takes 50 times as long
        return bits
    if isinstance(bits, type) or not isinstance(bits, RandomBits):
        raise InvalidParameter("bits", bits, expected="None, or unacorda.SeededBits(7) in a test")
    return bits


def fair_coins(count: int, bits: RandomBits | None = None) -> NDArray[np.bool_]:
    """Fair and independent coins, one at least; from `SecureBits()` by default.

    >>> fair_coins(4, SeededBits(1)).tolist()
    [True, False, True, True]
    """
    if _counted(count) < 1:
        raise InvalidParameter("count", count, expected="a whole number, 1 or above")
    coins: NDArray[np.bool_] = source_of(bits).words(count) % np.uint64(2) == 1
    return coins


def _below(bits: RandomBits, bound: int) -> int:
    """The first value under ``bound`` among uniform values of just enough bits."""
    try:
        limit = operator.index(bound)
    except TypeError:
        limit = 0
    if limit < 1:
        raise InvalidParameter("bound", bound, expected="a whole number, 1 or above")
    length = (limit - 1).bit_length()
    if length == 0:
        return 0
    words, excess = -(-length // 64), -length % 64
    while True:
        value = 0
        for word in bits.words(words).tolist():
            value = value << 64 | word
        value >>= excess
        if value < limit:
            return value


def _counted(count: int) -> int:
    try:
        number = operator.index(count)
    except TypeError:
        number = -1
    if number < 0:
        raise InvalidParameter("count", count, expected="a whole number, 0 or above")
    return number


def _refuse() -> NoReturn:
    msg = (
        "SecureBits cannot be pickled or copied: two holders of one stream would draw the same "
        "noise. Make a new SecureBits() where it is needed."
    )
    raise TypeError(msg)
