#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# compile src/*.c on the host against Debian's -dev packages unpacked (not installed) in $WORK/sdk
set -e
KIT=$(cd "$(dirname "$0")" && pwd); WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}; mkdir -p $WORK/bin $WORK/sdk
cd $WORK/sdk; [ -d usr ] || { apt-get download libibverbs-dev librdmacm-dev libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 2>/dev/null; for d in *.deb; do dpkg-deb -x $d .; done; }
LD="-L usr/lib/x86_64-linux-gnu -Wl,-rpath-link,usr/lib/x86_64-linux-gnu:lib/x86_64-linux-gnu"
gcc -O1 -g -Wall -Wextra -I usr/include -o $WORK/bin/peer $KIT/src/peer*.c $LD -libverbs
gcc -O1 -g -Wall -Wextra -I usr/include -o $WORK/bin/cmrej $KIT/src/cmrej.c $LD -lrdmacm -libverbs
