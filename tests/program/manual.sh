#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The manual has no errors, and has every command, option and environment variable.
#
#   manual.sh PROGRAM SOURCES

set -u
program=$1 sources=$2
pages=$(dirname "$program")/../docs/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
	echo "FAILED: $*" >&2
	failed=1
}

# has PAGE WORD: as a whole.
has() {
	sed 's/\\-/-/g; s/\\f[BIR]//g' "$1" | grep -qE -e "(^|[^-A-Z_])$2([^-a-zA-Z_]|\$)"
}

for page in "$pages"/*.[1-8]; do
	mandoc -T lint -W warning "$page" >&2 || fail "mandoc -T lint $page"
done

commands=$("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 4 ] || fail "commands: $commands"
for command in $commands; do
	has "$pages/urxe.1" "urxe $command" || fail "urxe(1) hasn't urxe $command"
	[ "$command" != help ] || continue
	page=$pages/urxe-$command.1
	[ -f "$page" ] || { fail "no $page"; continue; }
	has "$pages/urxe.1" "urxe-$command" || fail "urxe(1) doesn't refer to urxe-$command(1)"
	for option in $("$program" "$command" --help | sed -nE 's/^ *(-., +)?(--[a-z-]+).*/\2/p'); do
		[[ $option == --@(help|usage|version) ]] || has "$page" "$option" ||
			fail "urxe-$command(1) hasn't $option"
	done
done

for topic in $("$program" help --help | sed -n 's/^Topics: //p'); do
	has "$pages/urxe.1" "$topic" || fail "urxe(1) hasn't the topic $topic"
	[ "$("$program" help "$topic" | wc -l)" -gt 10 ] || fail "urxe help $topic"
done

# urxe-faults(7) is the description of the language: it has all that there is.
for action in $("$program" help faults | sed -nE '/^ACTION is/,/^MATCH is/s/^  ([a-z]+)[ (].*/\1/p'); do
	has "$pages/urxe-faults.7" "$action" || fail "urxe-faults(7) hasn't $action"
done
for topic in $("$program" help --help | sed -n 's/^Topics: //p'); do
	[ "$topic" = faults ] || has "$pages/urxe-faults.7" "urxe help $topic" ||
		fail "urxe-faults(7) hasn't urxe help $topic"
done

variables=$(sed -nE 's/^	\{"(URXE_[A-Z_]+)", .*/\1/p' "$sources/verbs/configuration.c"
	grep -oE '(variable|copy|copy_path)\("[A-Z_]+"' "$sources/verbs/configuration.c" | cut -d'"' -f2)
[ "$(wc -w <<<"$variables")" -ge 8 ] || fail "variables: $variables"
for variable in $variables; do
	has "$pages/urxe.7" "$variable" || fail "urxe(7) hasn't $variable"
done

options=$(sed -nE 's/^	\{"([a-z-]+)", (true|false), read_.*/\1/p' "$sources/verbs/check/options.c" | sort -u)
[ "$(wc -w <<<"$options")" -ge 6 ] || fail "options of URXE_CHECK: $options"
for option in $options; do
	has "$pages/urxe-check.7" "$option" || fail "urxe-check(7) hasn't $option"
	"$program" run --help | grep -qwF -e "$option" || fail "urxe run --help hasn't $option of --check"
done

keys=$(sed -nE 's/^\t(TEXT|BITS|NUMBER|WORD|)[({]"([a-z0-9_]+)".*/\2/p; s/^\t(CORE|ANY|SAYS)\(([a-z0-9_]+),.*/\2/p' \
	"$sources/verbs/profile_keys.c")
[ "$(wc -w <<<"$keys")" -ge 70 ] || fail "keys of profiles: $keys"
for key in $keys; do
	has "$pages/urxe-profiles.7" "$key" || fail "urxe-profiles(7) hasn't $key"
done

for page in "$pages"/*.[1-8]; do
	grep -qF "(man/${page##*/})" "$sources/docs/urxe.md" || fail "docs/urxe.md hasn't ${page##*/}"
done

# urxe help opens the page in man(1), or does without.
printf '#!/bin/sh\necho "the page $1"\n' >"$work/man"
chmod +x "$work/man"
[ "$(PATH=$work:$PATH "$program" help run)" = "the page $(readlink -f "$pages/urxe-run.1")" ] ||
	fail "urxe help run"
"$program" help --help | sed -n 's/^Pages: //p' | tr ' ' '\n' | sort >"$work/pages"
(cd "$pages" && printf '%s\n' *.7) | sort | cmp -s "$work/pages" - || fail "urxe help --help lists $(cat "$work/pages")"
for page in "$pages"/*.[17]; do
	name=$(basename "$page")
	for subject in "$name" "${name%.*}(${name##*.})" "${name#urxe-}"; do
		[ "$(PATH=$work:$PATH "$program" help "$subject")" = "the page $(readlink -f "$page")" ] ||
			fail "urxe help $subject"
	done
done
for subject in urxe urxe-faults check; do
	PATH=$work:$PATH "$program" help $subject | grep -q '^the page ' || fail "urxe help $subject"
done
PATH=/nowhere "$program" help run >"$work/out" 2>&1 || fail "urxe help run without man"
grep -q -e --faults "$work/out" || fail "urxe help run without man has no options"
! PATH=/nowhere "$program" help check 2>"$work/err" || fail "urxe help check without man"
grep -q "man isn't installed.*urxe-check.7" "$work/err" || fail "urxe help check without man has no page"
"$program" help faults | grep -q 'ACTION=RATE' || fail "urxe help faults"
"$program" help opcodes | grep -qx RC_RDMA_READ_REQUEST || fail "urxe help opcodes"
"$program" help >"$work/out" && grep -q '^Commands:' "$work/out" || fail "urxe help"
! "$program" help nothing 2>"$work/err" || fail "urxe help nothing"
[ "$(wc -l <"$work/err")" = 1 ] || fail "urxe help nothing: not one line"

exit $failed
