"""Theorems that turn one guarantee into another, each a pure function with its direction.

Names are ``<target>_from_<source>``. *Bound upper*: what satisfies the source satisfies the target
returned. *Bound lower*: the result is the largest guarantee of the target's kind that still fits
into the source. Numbers are floats or Fractions, a float being the number it holds; results are
floats rounded to the safe side, or exact Fractions where the formula is rational. A negative or
non-finite number, or a delta outside [0, 1], is InvalidParameter.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.privacy.conversions.approximate import (
    approx_dp_delta_from_gdp,
    approx_dp_delta_from_pure,
    approx_dp_delta_from_zcdp,
    approx_dp_from_gdp,
    approx_dp_from_zcdp,
    delta_of_mixture,
    delta_of_part,
    gdp_from_approx_dp,
    pure_from_approx_dp,
    zcdp_from_approx_dp,
)
from unacorda.privacy.conversions.composition import (
    advanced_composition,
    advanced_composition_of_approximate,
    basic_composition,
    delta_of_independent_failures,
)
from unacorda.privacy.conversions.concentrated import (
    approximate_zcdp_from_approx_dp,
    bounded_range_from_gdp,
    bounded_range_from_zcdp,
    gdp_from_bounded_range,
    gdp_from_pure,
    gdp_from_zcdp,
    pure_from_gdp,
    pure_from_zcdp,
    renyi_from_zcdp,
    zcdp_from_bounded_range,
    zcdp_from_gdp,
    zcdp_from_pure,
)
from unacorda.privacy.conversions.group import (
    add_remove_from_replace_one,
    approx_dp_of_group,
    gdp_of_group,
    pure_of_group,
    renyi_of_two_steps,
    renyi_orders_of_two_steps,
    replace_one_from_add_remove,
    zcdp_of_group,
    zcdp_of_two_steps,
    zero_out_from_replace_one,
)
from unacorda.privacy.conversions.renyi import (
    approx_dp_delta_from_renyi,
    approx_dp_delta_from_renyi_closed,
    approx_dp_from_renyi,
    approx_dp_from_renyi_closed,
    pure_from_renyi,
    renyi_from_approx_dp,
    renyi_from_laplace,
    renyi_from_pure,
)

__all__ = [
    "add_remove_from_replace_one",
    "advanced_composition",
    "advanced_composition_of_approximate",
    "approx_dp_delta_from_gdp",
    "approx_dp_delta_from_pure",
    "approx_dp_delta_from_renyi",
    "approx_dp_delta_from_renyi_closed",
    "approx_dp_delta_from_zcdp",
    "approx_dp_from_gdp",
    "approx_dp_from_renyi",
    "approx_dp_from_renyi_closed",
    "approx_dp_from_zcdp",
    "approx_dp_of_group",
    "approximate_zcdp_from_approx_dp",
    "basic_composition",
    "bounded_range_from_gdp",
    "bounded_range_from_zcdp",
    "delta_of_independent_failures",
    "delta_of_mixture",
    "delta_of_part",
    "gdp_from_approx_dp",
    "gdp_from_bounded_range",
    "gdp_from_pure",
    "gdp_from_zcdp",
    "gdp_of_group",
    "pure_from_approx_dp",
    "pure_from_gdp",
    "pure_from_renyi",
    "pure_from_zcdp",
    "pure_of_group",
    "renyi_from_approx_dp",
    "renyi_from_laplace",
    "renyi_from_pure",
    "renyi_from_zcdp",
    "renyi_of_two_steps",
    "renyi_orders_of_two_steps",
    "replace_one_from_add_remove",
    "zcdp_from_approx_dp",
    "zcdp_from_bounded_range",
    "zcdp_from_gdp",
    "zcdp_from_pure",
    "zcdp_of_group",
    "zcdp_of_two_steps",
    "zero_out_from_replace_one",
]
