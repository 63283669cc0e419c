#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A script that is called wrongly says how it is called, and does nothing. With --help it says what it
# does.
#
#   scripts.sh SOURCES

set -u
failed=0

# refuses SCRIPT ARGUMENT...
refuses() {
	local script=$1 said status
	shift
	said=$("$scripts/$script" "$@" 2>&1 </dev/null)
	status=$?
	[ $status = 2 ] && grep -q '^usage: ' <<<"$said" || {
		echo "FAILED: scripts/$script $*: status $status: $said" >&2
		failed=1
	}
}

scripts=$1/scripts
for script in bench bench-paths build coverage deb demo fuzz interop setup test; do
	refuses $script --nothing
done
refuses demo /nonexistent/urxe
refuses demo sh sh
refuses bench-paths --build /nonexistent --set URXE_LOG -- tcp
refuses bench-paths --build /nonexistent --no-bridge --loss 1% -- tcp
refuses bench-paths --build /nonexistent --faults --reorder 1% -- ib_write_bw
for script in bench bench-paths build coverage deb demo fuzz interop setup test; do
	said=$("$scripts/$script" --help 2>&1 </dev/null) && grep -q "$script" <<<"$said" || {
		echo "FAILED: scripts/$script --help: $said" >&2
		failed=1
	}
done
exit $failed
