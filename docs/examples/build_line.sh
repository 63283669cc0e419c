#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# build_line.sh FILE: the line in FILE's comment that says how to build it does.

set -eu
line=$(sed -n 's/^ \*   \(cc .*\)/\1/p' "$1")
[ -n "$line" ] || { echo "$1 doesn't say how it is built"; exit 1; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cp "$(dirname "$1")"/*.h "$1" "$directory"
cd "$directory"
eval "$line"
[ -x "$(basename "$1" .c)" ]
