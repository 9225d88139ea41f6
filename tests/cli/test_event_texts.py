"""Events as text: whatever is written is read back, and whatever else is read is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.privacy.test_events import EVENTS
from tests.support.cases import in_subtests
from tests.support.cli_seams import (
    CLASSES,
    METHODS,
    depth,
    is_optional,
    is_whole,
    places,
    read_event,
    read_template,
    written,
)
from tests.support.cli_seams import SPELLED_KINDS as KINDS

from unacorda.errors import InvalidParameter
from unacorda.privacy.events import (
    EVENT_KINDS,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    PoissonTries,
    Pure,
    ZeroConcentrated,
)


@pytest.mark.long
@given(EVENTS)
def test_what_is_written_is_read_back(event: Event) -> None:
    again = read_event(written(event))
    assert again == event
    assert again.to_json() == read_event(written(again)).to_json()


@pytest.mark.long
@given(EVENTS)
def test_class_names_and_blanks_do_not_matter(event: Event) -> None:
    text = written(event)
    for name, kind in KINDS.items():
        text = re.sub(rf"(?<![\w.]){name}\(", f"{kind.__name__}( ", text)
    assert read_event(f"\n  {text.replace(' + ', chr(10) + '+ ')}\t") == event


def test_every_event_of_the_union_has_its_names() -> None:
    kinds = EVENT_KINDS
    assert set(KINDS.values()) == set(CLASSES.values()) == set(kinds)
    assert KINDS["negative_binomial_tries"].__name__ == "NegativeBinomialTries"
    assert KINDS["pure"] is CLASSES["Pure"] is Pure
    for kind in kinds:
        assert list(places(kind)) == list(kind.__dataclass_fields__)


def test_every_method_that_gives_an_event_is_known_and_no_other() -> None:
    assert set(METHODS["Gaussian"]) == {
        "fixed_size_sampled",
        "poisson_sampled",
        "randomly_allocated",
        "sampled_with_replacement",
        "shuffled",
    }
    assert set(METHODS["MatrixFactorization"]) - set(METHODS["Gaussian"]) == {
        "cyclic_poisson_sampled"
    }
    by_name = METHODS["Gaussian"]["randomly_allocated"].parameters
    assert is_whole(by_name["steps"])
    assert not is_optional(by_name["steps"])
    assert is_optional(by_name["uses"])


@in_subtests(
    ("text", "event"),
    [
        ("gaussian(noise_multiplier=1)", Gaussian(noise_multiplier=1)),
        ("Gaussian(noise_multiplier=0.1)", Gaussian(noise_multiplier=0.1)),
        ("gaussian(noise_multiplier=1/3)", Gaussian(noise_multiplier=Fraction(1, 3))),
        ("gaussian(noise_multiplier=6/3)", Gaussian(noise_multiplier=2)),
        ("gaussian(noise_multiplier=-(1 - 3))", Gaussian(noise_multiplier=2)),
        ("gaussian(noise_multiplier=+.5)", Gaussian(noise_multiplier=0.5)),
        ("gaussian(noise_multiplier=1_000.5)", Gaussian(noise_multiplier=1000.5)),
        ("1e4 * laplace(noise_multiplier=2)", Laplace(noise_multiplier=2) * 10_000),
        ("laplace(noise_multiplier=2) * (3 * 4)", Laplace(noise_multiplier=2) * 12),
        (
            "(pure(epsilon=1) + laplace(noise_multiplier=2)) * 2",
            Pure(epsilon=1) * 2 + Laplace(noise_multiplier=2) * 2,
        ),
        ("zero_concentrated(rho=1)", ZeroConcentrated(rho=1)),
        ("zero_concentrated(rho=1, delta=1e-9)", ZeroConcentrated(rho=1, delta=1e-9)),
        (
            "gaussian_mixture(noise_multiplier=1, shifts=(0, 1), weights=[0.9, 1/10])",
            GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.9, Fraction(1, 10))),
        ),
        (
            "matrix_factorization(noise_multiplier=1, encoder=[[1], [-1, 2]], steps=2)",
            MatrixFactorization(noise_multiplier=1, encoder=((1,), (-1, 2)), steps=2),
        ),
        (
            "poisson_tries(event=(pure(epsilon=1) * 2).shuffled(count=1e2), mean=3)",
            PoissonTries(event=(Pure(epsilon=1) * 2).shuffled(count=100), mean=3),
        ),
    ],
)
def test_reads(text: str, event: Event) -> None:
    assert read_event(text) == event


def test_a_number_that_no_float_prints_as_stays_exact() -> None:
    text = "gaussian(noise_multiplier=0.1000000000000000000000000001)"
    event = read_event(text)
    assert isinstance(event, Gaussian)
    assert event.noise_multiplier == Fraction(1, 10) + Fraction(1, 10**28)


@in_subtests(
    ("text", "column", "hint"),
    [
        ("gauss(noise_multiplier=1)", 1, "perhaps gaussian(noise_multiplier=...)"),
        ("Gausian(noise_multiplier=1)", 1, "perhaps gaussian("),
        ("gaussian", 1, "arguments behind it: gaussian(noise_multiplier=...)"),
        ("gaussian(1)", 10, "its name in front of it: gaussian(noise_multiplier=...)"),
        ("gaussian()", 1, "noise_multiplier as well"),
        ("gaussian(sigma=1)", 10, "gaussian(noise_multiplier=...)"),
        ("pure(epsilon=1) + gaussian(noise_multiplier=-1)", 45, "a finite number above 0"),
        ("pure(epsilon=1) * 2.5", 19, "a count, a whole number of 1 or above"),
        ("pure(epsilon=1) * 0", 19, "a count"),
        ("pure(epsilon=1) * -3", 19, "a count"),
        ("pure(epsilon=1) + 3", 19, "an event, since events add to events"),
        ("pure(epsilon=1) - pure(epsilon=1)", 1, "a number here"),
        ("pure(epsilon=1) / 2", 1, "a number here"),
        ("pure(epsilon=1) * pure(epsilon=1)", 19, "composed with +"),
        ("pure(epsilon=1/0)", 16, "a number other than 0"),
        ("pure(epsilon=10**9)", 14, "such as 1e4"),
        ("pure(epsilon=1e999)", 14, "fewer digits"),
        ("pure(epsilon=1e9999999)", 14, "such as 2, 0.5, 1e-5 or 1/3"),
        ("pure(epsilon=0x10)", 14, "such as 2, 0.5, 1e-5 or 1/3"),
        ("pure(epsilon=True)", 14, "such as 2, 0.5, 1e-5 or 1/3"),
        ("pure(epsilon=nan)", 14, "such as 2, 0.5, 1e-5 or 1/3"),
        ("pure(epsilon=x)", 14, "such as 2, 0.5, 1e-5 or 1/3"),
        ("pure(epsilon=[1])", 14, "a finite number, 0 or above"),
        ("pure(epsilon=pure(epsilon=1))", 14, "a finite number, 0 or above"),
        ("pure(epsilon=1).poisson_sampled(rate=1.5)", 38, "a number from 0 to 1"),
        ("pure(epsilon=1).poison_sampled(rate=1)", 17, "poisson_sampled"),
        ("(pure(epsilon=1)).to_json()", 19, "one of the methods of events"),
        ("pure(epsilon=1).shuffled", 1, "its arguments behind it"),
        ("pure(epsilon=1).shuffled(count=2.5)", 32, "a whole number"),
        ("(3).shuffled(count=2)", 2, "an event in front of .shuffled"),
        ("gaussian_mixture(noise_multiplier=1, shifts=3, weights=[1])", 1, "lists of numbers"),
        ("poisson_tries(event=3, mean=3)", 21, "an event"),
        ("composed(parts=[pure(epsilon=1), pure(epsilon=1)])", 16, "two or more different"),
        ("pure(epsilon=1, epsilon=2)", 17, "epsilon once: pure(epsilon=...)"),
        ("pure(**x)", 6, "pure(epsilon=...)"),
        ("pure(*x)", 6, "its name in front of it"),
        ("pure(epsilon=1)[0]", 1, "events, such as"),
        ("pure(epsilon=1) if 1 else 2", 1, "events, such as"),
        ("3", 1, "events, such as"),
        ("[pure(epsilon=1)]", 1, "events, such as"),
        ("pure(epsilon=1", 5, "never closed"),
        ("pure(epsilon=1))", 16, "unmatched ')'"),
        ("pure(epsilon='1')", 14, "names, numbers"),
        ("pure(epsilon=1) # more", 17, "names, numbers"),
        ("pure(epsilon=1); pure(epsilon=2)", 16, "names, numbers"),
        ("  \n pure(epsilon=no)", 18, "such as 2, 0.5, 1e-5 or 1/3"),
    ],
)
def test_a_mistake_is_answered_with_its_column_and_the_mend(
    text: str, column: int, hint: str
) -> None:
    with pytest.raises(InvalidParameter) as refused:
        read_event(text)
    message = str(refused.value)
    assert refused.value.argument.startswith("EVENTS")
    assert re.match(rf"EVENTS, column {column}\b", message), message
    assert hint in message


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_no_event(text: str) -> None:
    with pytest.raises(InvalidParameter, match="events, such as"):
        read_event(text)


HOSTILE = {
    "import": "__import__('os').system('false')",
    "import by name": "__import__(name=1)",
    "dunder": "gaussian(noise_multiplier=1).__class__.__mro__",
    "dunder call": "gaussian(noise_multiplier=1).__reduce__()",
    "private": "gaussian(noise_multiplier=1).__add__(other=pure(epsilon=1))",
    "lambda": "(lambda: 1)()",
    "walrus": "(x := pure(epsilon=1))",
    "comprehension": "[pure(epsilon=1) for x in [1]]",
    "power": "pure(epsilon=9**9**9**9)",
    "shift": "pure(epsilon=1<<99999999)",
    "exponent": "pure(epsilon=1e999999999)",
    "small exponent": "pure(epsilon=1e-999999999)",
    "digits": f"pure(epsilon={'9' * 5000})",
    "count": f"pure(epsilon=1) * {'9' * 5000}",
    "product": f"pure(epsilon={'*'.join(['9' * 100] * 80)})",
    "quotient": f"pure(epsilon={'/'.join(['9' * 100] * 80)})",
    "parentheses": f"pure(epsilon={'(' * 4000}1{')' * 4000})",
    "minus": f"pure(epsilon={'-' * 9000}1)",
    "methods": "pure(epsilon=1)" + ".shuffled(count=2)" * 500,
    "attributes": "pure" + ".a" * 4900,
    "products": "pure(epsilon=1)" + "*2" * 4900,
    "lists": f"pure(epsilon={'[' * 180}{']' * 180})",
    "calls": "poisson_tries(mean=1, event=" * 100 + "1" + ")" * 100,
    "null": "pure(epsilon=1)\0",
    "wide digits": "pure(epsilon=\uff11)",
    "surrogate": "pure(epsilon=\ud800)",
    "ten megabytes": "pure(epsilon=1) + " * 600_000,
    "ten megabytes of brackets": "(" * 10_000_000,
}


@in_subtests("kind", HOSTILE)
def test_hostile_text_is_refused_at_once(kind: str) -> None:
    before = set(sys.modules)
    began = time.monotonic()
    with pytest.raises(InvalidParameter) as refused:
        read_event(HOSTILE[kind])
    assert time.monotonic() - began < 20  # a hang, not a speed: each takes milliseconds
    assert len(str(refused.value)) < 1200
    assert set(sys.modules) == before


@given(st.text(alphabet="gaussian(noise_multiplier=1).+* 0,/[]e-", max_size=40))
def test_any_text_is_an_event_or_refused(text: str) -> None:
    try:
        event = read_event(text)
    except InvalidParameter:
        return
    assert isinstance(event, EVENT_KINDS)


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_signs_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        read_event(text)


@pytest.mark.long
def test_sums_of_hundreds_of_events_are_read() -> None:
    text = " + ".join(f"pure(epsilon={n})" for n in range(1, 401))
    event = read_event(text)
    assert event == sum((Pure(epsilon=n) for n in range(2, 401)), start=Pure(epsilon=1))
    assert depth(event) == 2


def test_free_names_know_where_whole_numbers_stand() -> None:
    template = read_template(
        "(gaussian(noise_multiplier=2 * x).poisson_sampled(rate=q / 3) * n).shuffled(count=m) * 2"
    )
    assert template.names == ("x", "q", "n", "m")
    assert template.whole == {"n", "m"}
    inner = Gaussian(noise_multiplier=3).poisson_sampled(rate=Fraction(1, 6)) * 4
    assert template.event(x=1.5, q=0.5, n=4, m=5) == inner.shuffled(count=5) * 2
    assert read_template("randomized_response(epsilon=1, categories=k)").whole == {"k"}
    assert read_template("n * pure(epsilon=n)").whole == {"n"}
    assert read_template("pure(epsilon=2 * n)").whole == set()
    with pytest.raises(
        InvalidParameter, match="EVENTS, column 19='n' cannot be used: expected a c"
    ):
        read_template("pure(epsilon=1) * n").event(n=0.5)


def test_depth_counts_no_further_than_it_must() -> None:
    event: Event = Pure(epsilon=1)
    for _ in range(1500):
        event = event.shuffled(count=2)
    assert depth(event) == 1000
