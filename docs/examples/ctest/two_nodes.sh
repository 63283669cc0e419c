#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# two_nodes.sh URXE PROGRAM [ARGUMENT...]: PROGRAM as a server on node 127.0.0.1, and as a client, with the
# server's address behind the arguments, on 127.0.0.2. Succeeds when both do.

urxe=$1
shift
"$urxe" run --node 127.0.0.1 -- "$@" &
server=$!
trap 'kill $server 2>/dev/null' EXIT
until "$urxe" run --node 127.0.0.2 -- "$@" 127.0.0.1; do
	kill -0 $server 2>/dev/null || exit 1
	sleep 0.1 # it doesn't listen yet
done
wait $server
