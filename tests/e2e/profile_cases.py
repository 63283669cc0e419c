# SPDX-License-Identifier: BSD-2-Clause
"""Cases under each profile that is shipped: connections need nothing that some card lacks.

What a profile limits is asserted by tests/verbs. Datagrams aren't here: not all cards have UD.
"""

import glob
import os

from manager_cases import both, rping
from rsocket_cases import streaming

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiles")
# "strict" is made of the others.
PROFILES = sorted(os.path.basename(path).removesuffix(".profile")
                  for path in glob.glob(os.path.join(FOLDER, "*.profile"))) + ["strict"]


def profile_cases():
    for name in PROFILES:
        under = {"detail": f"profile {name}", "environment": {"URXE_PROFILE": name}, "deadline": 60}
        yield rping("-C", "2", "-V", **under)  # READs and WRITEs
        yield both("ucmatose", "-c", "2", **under)
        yield streaming("rstream", test="v", transfers=5, **under)
