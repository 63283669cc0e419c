#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# urxe profiles lists the profiles that there are, and shows each; docs/profiles.md is what it
# writes; and every value in profiles/ has its source behind it.
#
#   profiles.sh PROGRAM SOURCES

set -u
program=$1 sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
	echo "FAILED: $*" >&2
	failed=1
}

"$program" profiles >"$work/list" || fail "urxe profiles"
[ "$(wc -l <"$work/list")" -ge 10 ] || fail "profiles: $(cat "$work/list")"
for file in "$sources"/profiles/*.profile; do
	name=$(basename "$file" .profile)
	grep -qE "^$name  +[A-Z]" "$work/list" || fail "$name isn't listed with its description"
	"$program" profiles "$name" | cmp -s - "$file" || fail "urxe profiles $name"
	! sed 's/^#.*//' "$file" | grep -v '^description = ' | grep -E '^[^#]+=[^#]*$' ||
		fail "$file has values without a source"
done
grep -q '^strict ' "$work/list" || fail "strict isn't listed"

echo 'max_sge = 4' >"$work/mine.profile"
[ "$("$program" profiles "$work/mine.profile")" = 'max_sge = 4' ] || fail "a file"
! "$program" profiles nothing >"$work/out" 2>"$work/err" || fail "urxe profiles nothing"
[ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] || fail "urxe profiles nothing: not one line"
! "$program" profiles "$work/" >"$work/out" 2>"$work/err" || fail "urxe profiles of a folder"
grep -qx "urxe: $work/: Is a directory" "$work/err" || fail "urxe profiles of a folder: $(cat "$work/err")"

"$program" profiles --markdown >"$work/profiles.md" || fail "urxe profiles --markdown"
diff "$sources/docs/profiles.md" "$work/profiles.md" >&2 ||
	fail "docs/profiles.md isn't what urxe profiles --markdown writes"

exit $failed
