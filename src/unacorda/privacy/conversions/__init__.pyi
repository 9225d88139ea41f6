# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.privacy.conversions.approximate import (
    approx_dp_delta_from_gdp as approx_dp_delta_from_gdp,
)
from unacorda.privacy.conversions.approximate import (
    approx_dp_delta_from_pure as approx_dp_delta_from_pure,
)
from unacorda.privacy.conversions.approximate import (
    approx_dp_delta_from_zcdp as approx_dp_delta_from_zcdp,
)
from unacorda.privacy.conversions.approximate import approx_dp_from_gdp as approx_dp_from_gdp
from unacorda.privacy.conversions.approximate import approx_dp_from_zcdp as approx_dp_from_zcdp
from unacorda.privacy.conversions.approximate import delta_of_mixture as delta_of_mixture
from unacorda.privacy.conversions.approximate import delta_of_part as delta_of_part
from unacorda.privacy.conversions.approximate import gdp_from_approx_dp as gdp_from_approx_dp
from unacorda.privacy.conversions.approximate import pure_from_approx_dp as pure_from_approx_dp
from unacorda.privacy.conversions.approximate import zcdp_from_approx_dp as zcdp_from_approx_dp
from unacorda.privacy.conversions.composition import advanced_composition as advanced_composition
from unacorda.privacy.conversions.composition import (
    advanced_composition_of_approximate as advanced_composition_of_approximate,
)
from unacorda.privacy.conversions.composition import basic_composition as basic_composition
from unacorda.privacy.conversions.composition import (
    delta_of_independent_failures as delta_of_independent_failures,
)
from unacorda.privacy.conversions.concentrated import (
    approximate_zcdp_from_approx_dp as approximate_zcdp_from_approx_dp,
)
from unacorda.privacy.conversions.concentrated import (
    bounded_range_from_gdp as bounded_range_from_gdp,
)
from unacorda.privacy.conversions.concentrated import (
    bounded_range_from_zcdp as bounded_range_from_zcdp,
)
from unacorda.privacy.conversions.concentrated import (
    gdp_from_bounded_range as gdp_from_bounded_range,
)
from unacorda.privacy.conversions.concentrated import gdp_from_pure as gdp_from_pure
from unacorda.privacy.conversions.concentrated import gdp_from_zcdp as gdp_from_zcdp
from unacorda.privacy.conversions.concentrated import pure_from_gdp as pure_from_gdp
from unacorda.privacy.conversions.concentrated import pure_from_zcdp as pure_from_zcdp
from unacorda.privacy.conversions.concentrated import renyi_from_zcdp as renyi_from_zcdp
from unacorda.privacy.conversions.concentrated import (
    zcdp_from_bounded_range as zcdp_from_bounded_range,
)
from unacorda.privacy.conversions.concentrated import zcdp_from_gdp as zcdp_from_gdp
from unacorda.privacy.conversions.concentrated import zcdp_from_pure as zcdp_from_pure
from unacorda.privacy.conversions.group import (
    add_remove_from_replace_one as add_remove_from_replace_one,
)
from unacorda.privacy.conversions.group import approx_dp_of_group as approx_dp_of_group
from unacorda.privacy.conversions.group import gdp_of_group as gdp_of_group
from unacorda.privacy.conversions.group import pure_of_group as pure_of_group
from unacorda.privacy.conversions.group import renyi_of_two_steps as renyi_of_two_steps
from unacorda.privacy.conversions.group import (
    renyi_orders_of_two_steps as renyi_orders_of_two_steps,
)
from unacorda.privacy.conversions.group import (
    replace_one_from_add_remove as replace_one_from_add_remove,
)
from unacorda.privacy.conversions.group import zcdp_of_group as zcdp_of_group
from unacorda.privacy.conversions.group import zcdp_of_two_steps as zcdp_of_two_steps
from unacorda.privacy.conversions.group import (
    zero_out_from_replace_one as zero_out_from_replace_one,
)
from unacorda.privacy.conversions.renyi import (
    approx_dp_delta_from_renyi as approx_dp_delta_from_renyi,
)
from unacorda.privacy.conversions.renyi import (
    approx_dp_delta_from_renyi_closed as approx_dp_delta_from_renyi_closed,
)
from unacorda.privacy.conversions.renyi import approx_dp_from_renyi as approx_dp_from_renyi
from unacorda.privacy.conversions.renyi import (
    approx_dp_from_renyi_closed as approx_dp_from_renyi_closed,
)
from unacorda.privacy.conversions.renyi import pure_from_renyi as pure_from_renyi
from unacorda.privacy.conversions.renyi import renyi_from_approx_dp as renyi_from_approx_dp
from unacorda.privacy.conversions.renyi import renyi_from_laplace as renyi_from_laplace
from unacorda.privacy.conversions.renyi import renyi_from_pure as renyi_from_pure
