#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# urxe explain finds causes by number, by name and by what applications see, and docs/errors.md
# is what it writes.
#
#   explain.sh PROGRAM ERRORS.MD

set -eu
program=$1 document=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*" >&2
	cat "$work/out" "$work/err" >&2
	exit 1
}

explain() {
	"$program" explain "$@" >"$work/out" 2>"$work/err"
}

# shows PATTERN SUBJECT...
shows() {
	local pattern=$1
	shift
	explain "$@" || fail "$*: exit status"
	grep -q -e "$pattern" "$work/out" || fail "$*: not $pattern"
	[ ! -s "$work/err" ] || fail "$*: not silent"
}

# One page, by whatever an application or a message says it is.
for subject in 0x2101 0X2101 2101 8449 REMOTE_KEY_UNKNOWN remote_key_unknown CAUSE_REMOTE_KEY_UNKNOWN; do
	shows '^0x2101  REMOTE_KEY_UNKNOWN' "$subject"
	[ "$(grep -c '^0x' "$work/out")" = 1 ] || fail "$subject: not one page"
done
for heading in 'What it means' 'Usual reasons' 'What to look at'; do
	grep -q "^$heading$" "$work/out" || fail "no $heading"
done
[ -z "$(awk 'length > 79' "$work/out")" ] || fail "a long line"

# The page says what the document says, in the same order: word by word, and item by item.
words() {
	tr -cs '[:alnum:]_' '\n'
}
awk '/^### / { wanted = $2 == "0x2101" } wanted' "$document" >"$work/section"
sed '/^What it means$/d' "$work/out" | words >"$work/page"
words <"$work/section" | sed 1d | cmp - "$work/page" || fail "0x2101: not what $document has"
[ "$(grep -c '^  - ' "$work/out")" = "$(grep -c '^- ' "$work/section")" ] || fail "0x2101: not its items"

shows '^0x4001  PATH_NOT_GLOBAL' 0x2101 0x4001
[ "$(grep -c '^0x' "$work/out")" = 2 ] || fail "not two pages"

# All that show as a status: its name, whole or not, or its number.
for status in IBV_WC_REM_ACCESS_ERR ibv_wc_rem_access_err REM_ACCESS_ERR 10; do
	shows '^0x2101  REMOTE_KEY_UNKNOWN' "$status"
done
for status in 'remote access error' 'Remote Access Error'; do
	shows '^0x2101  REMOTE_KEY_UNKNOWN' "$status"
done
shows '^        the R_Key names no memory region or window$' REM_ACCESS_ERR
shows '^        the peer: IBV_WC_REM_ACCESS_ERR; here: ' REM_ACCESS_ERR
shows '^0x3001  COMM_EST' IBV_EVENT_COMM_EST
shows '^0x3001  COMM_EST' 'communication established'
shows '^0x5001  CM_NO_LISTENER' RDMA_CM_EVENT_REJECTED
shows '^0x4001  PATH_NOT_GLOBAL' EINVAL
shows '^0x4001  PATH_NOT_GLOBAL' 22
explain EINVAL
! grep -q '^0x4801' "$work/out" || fail "EINVAL: names what shows as EFAULT"

# Part of a name and a word of the text are different things: RDMA_CM_EVENT_REJECTED's causes.
shows '^RDMA_CM_EVENT_REJECTED' rejected
shows '^0x5001  CM_NO_LISTENER' REJECTED
# Two names of one errno.
for subject in EOPNOTSUPP ENOTSUP 95; do
	shows '^0x4012  NOT_SUPPORTED' $subject
	shows '^0x5124  CM_JOIN_MASK' $subject
done
shows '^EAGAIN' EWOULDBLOCK
shows '^0x4302  SEND_QUEUE_FULL' ibv_post_send

# What only hardware gives can be had by a fault.
shows '^IBV_WC_FATAL_ERR comes of faults alone here' fatal_err
for subject in IBV_WC_FATAL_ERR fatal_err 'fatal error' 19; do
	shows '^0x6101  INJECTED_COMPLETION' "$subject"
done
shows '^0x6103  INJECTED_EVENT' SRQ_ERR

for unknown in IBV_WC_SUCCESS IBV_WC_REM_ACCESS REQ_ERR IBV_EVENT_WQ_FATAL the peer nothing status 0x2fff 99999 NO_SUCH_CAUSE "remote access" EINVA 0x 0 "" " " 100000000000000000000; do
	! explain "$unknown" || fail "$unknown is explained"
	[ "$(wc -l <"$work/err")" = 1 ] || fail "$unknown: not one line"
	[ ! -s "$work/out" ] || fail "$unknown: says something"
done
status=0
explain || status=$?
[ $status = 2 ] || fail "without a subject: exit status $status"

# Output that is lost.
status=0
"$program" explain --list >/dev/full 2>"$work/err" || status=$?
[ $status = 2 ] || fail "a full disk: exit status $status"
[ "$(wc -l <"$work/err")" = 1 ] || fail "a full disk: not one line"

# The list and the document have all of them.
shows '^0x5001  CM_NO_LISTENER' --list
awk '{ print $1, $2 }' "$work/out" >"$work/list"
shows '^### 0x5001 CM_NO_LISTENER' --markdown
sed -n 's/^### //p' "$work/out" | cmp - "$work/list" || fail "the document isn't the list"
diff "$document" "$work/out" >"$work/err" ||
	fail "docs/errors.md isn't current: urxe explain --markdown >docs/errors.md"
