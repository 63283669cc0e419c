# SPDX-License-Identifier: BSD-2-Clause
# Completion of urxe(1) for bash. What there is to complete the program says itself: commands and
# options in its help, fault actions, causes.

_urxe_commands() {
	"$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

_urxe_options() {
	"$1" "$2" --help 2>/dev/null | sed -nE 's/^ *(-., +)?(--[a-z-]+).*/\2/p'
}

# Topics, and pages of the manual.
_urxe_topics() {
	"$1" help --help 2>/dev/null | sed -nE 's/^(Topics|Pages): //p'
}

_urxe_causes() {
	"$1" explain --list 2>/dev/null | awk '{ print $1; print $2 }'
}

# The last one of a list of addresses and interfaces; behind ':' readline begins another word.
_urxe_nodes() {
	local before=${1%"${1##*[,/]}"}
	COMPREPLY=($(compgen -P "$before" -W "127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4 localhost
		$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -v :)
		$(cd /sys/class/net 2>/dev/null && echo *)" -- "${1#"$before"}"))
}

# Of the last clause of a list the action, its argument, or what it is about; in quotes the list is
# one word.
_urxe_faults() {
	local current=${2#[\'\"]} action choices=seed= topic=
	local before=${current%"${current##*[;,]}"}
	local clause=${current#"$before"}
	if [[ $clause == */* ]]; then
		before=${current%"${current##*/}"}
		case ${clause%%[^a-z]*} in
		fail) topic=calls ;;
		complete | late | event | down | remove) topic=work ;;
		reject) choices="CM_REQ CM_REP" ;;
		coalesce | connection | spurious) choices= ;;
		*) topic=opcodes ;;
		esac
	elif [[ $clause == *\(* ]]; then
		before=${current%"${current##*\(}"} choices=
		case ${clause%%[^a-z]*} in
		complete) topic=statuses ;;
		event) topic=events ;;
		connection) choices="ADDR_ERROR ROUTE_ERROR UNREACHABLE MULTICAST_ERROR ADDR_CHANGE" ;;
		reject) topic=reasons ;;
		esac
	else
		for action in $("$1" help faults |
			sed -nE '/^ACTION is/,/^MATCH is/s/^  ([a-z]+\(?).*/\1/p'); do
			[[ $action == *\( ]] && choices+=" $action" || choices+=" $action= $action#"
		done
	fi
	[ -z "$topic" ] || choices=$("$1" help "$topic")
	compopt -o nospace 2>/dev/null
	COMPREPLY=($(compgen -P "$before" -W "$choices" -- "${current#"$before"}"))
}

# Those that are installed; or files.
_urxe_profiles() {
	compopt -o filenames 2>/dev/null
	COMPREPLY=($(compgen -W "$("$1" profiles | awk '{ print $1 }')" -- "$2"
		compgen -f -X '!*.profile' -- "$2"; compgen -d -- "$2"))
}

# Not the files beside them, of what faults did.
_urxe_captures() {
	compopt -o filenames 2>/dev/null
	local IFS=$'\n'
	COMPREPLY=($(compgen -f -X '!*.pcap*' -- "$1" | grep -v '\.faults$'; compgen -d -- "$1"))
}

_urxe_folders() {
	compopt -o filenames 2>/dev/null
	local IFS=$'\n'
	COMPREPLY=($(compgen -d -- "$1"))
}

# To readline "--check=exit=1" is five words; past those that belong to the one at $at.
_urxe_skip_parts() {
	while [[ ${COMP_WORDS[at + 1]-} == [=:]* ]]; do
		((at += 2))
	done
}

# Where the program of run or stat stands among the words, into $at; 0: no word before this one.
_urxe_find_program() {
	for ((at = 2; at < COMP_CWORD; at++)); do
		case ${COMP_WORDS[at]} in
		--)
			((++at))
			return
			;;
		--node | --link | --pcap | --faults | --profile | --timeout | --only | --seeds | --output | --peer | --peer-node)
			[ "${COMP_WORDS[at + 1]}" = = ] || ((++at))
			_urxe_skip_parts
			;;
		-*) _urxe_skip_parts ;;
		*) return ;;
		esac
	done
	at=0
}

# Its name, or its arguments as bash-completion has them.
_urxe_program() {
	if ((at == 0 || at == COMP_CWORD)); then
		COMPREPLY=($(compgen -c -- "$1"; compgen -d -- "$1"))
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$at"
	fi
}

# Of the last word of a list the kind of faults, or the call.
_urxe_only() {
	local before=${2%"${2##*,}"}
	COMPREPLY=($(compgen -P "$before" -W "calls completions events connections link timing packets
		$("$1" help calls)" -- "${2#"$before"}"))
}

# Of the last word of a list of the checker's options.
_urxe_check() {
	local before=${1%"${1##*,}"}
	compopt -o nospace 2>/dev/null
	COMPREPLY=($(compgen -P "$before" -W "exit= json= no-leaks order portability= suppress=" -- "${1#"$before"}"))
}

_urxe_processes() {
	"$1" ps 2>/dev/null | sed -nE 's/^([0-9]+)  .*/\1/p'
}

# The process, a command for it, or what follows that.
_urxe_control() {
	case $COMP_CWORD,${COMP_WORDS[3]} in
	2,*) _urxe_words "$(_urxe_processes "$1")" "$2" ;;
	3,*) _urxe_words "$("$1" ctl --help 2>/dev/null | sed -nE '/^ *Commands:/,/^$/s/^ +([a-z]+) .*/\1/p' | sort -u)" "$2" ;;
	4,faults)
		_urxe_faults "$1" "$2"
		[[ none != "$2"* ]] || COMPREPLY+=(none)
		;;
	4,log) _urxe_words "error warn info debug" "$2" ;;
	4,explain) _urxe_words "on off" "$2" ;;
	esac
}

_urxe_words() {
	COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_urxe() {
	local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]}
	local option=${COMP_WORDS[COMP_CWORD - 1]} assigned= at=0
	COMPREPLY=()
	# To readline "--node=x" is three words.
	if [ "$current" = = ]; then
		current= assigned=1
	elif [ "$option" = = ]; then
		option=${COMP_WORDS[COMP_CWORD - 2]} assigned=1
	fi
	[[ $command != @(run|stat|fuzz) ]] || _urxe_find_program
	if ((COMP_CWORD == 1)); then
		_urxe_words "$(_urxe_commands "$program") --help --version" "$current"
	elif ((at)); then
		_urxe_program "$current"
	elif [[ $option == @(--node|--peer-node) ]]; then
		_urxe_nodes "$current"
	elif [[ $option == @(--timeout|--seeds|--qp|--from|--to|--count|-n|--interval|-i) ]]; then
		: # a number
	elif [ "$option" = --output ]; then
		_urxe_folders "$current"
	elif [ "$option" = --only ]; then
		_urxe_only "$program" "$current"
	elif [ "$option" = --link ]; then
		_urxe_words "udp shm" "$current"
	elif [ "$option" = --faults ]; then
		_urxe_faults "$program" "$current"
	elif [ "$option" = --format ]; then
		_urxe_words "table diagram svg json" "$current"
	elif [ "$option" = --pcap ]; then
		_urxe_captures "$current"
	elif [ "$option" = --profile ]; then
		_urxe_profiles "$program" "$current"
	elif [ "$assigned" ] && [ "$option" = --check ]; then
		_urxe_check "$current"
	elif [ "$assigned" ] && [[ $option != -* ]]; then
		: # within a value
	elif [[ $current == -* ]]; then
		_urxe_words "$(_urxe_options "$program" "$command")" "$current"
	else
		case $command in
		run | stat | fuzz) _urxe_program "$current" ;;
		trace) _urxe_captures "$current" ;;
		ps) _urxe_words "$(_urxe_processes "$program")" "$current" ;;
		ctl) _urxe_control "$program" "$current" ;;
		profiles) _urxe_profiles "$program" "$current" ;;
		explain) _urxe_words "$(_urxe_causes "$program")" "$current" ;;
		help) _urxe_words "$(_urxe_commands "$program") $(_urxe_topics "$program")" "$current" ;;
		esac
	fi
}

complete -o default -F _urxe urxe
