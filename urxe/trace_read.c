/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads captures: tshark dissects them, one line of fields a packet, and each line becomes a
 * record. What tshark doesn't know (XRC, FLUSH, ATOMIC WRITE) it hands on as bytes behind the BTH.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/wire/mad.h"
#include "urxe/command.h"
#include "urxe/trace.h"

enum field {
	NUMBER,
	TIME,
	ETHERNET_SOURCE,
	COOKED_TYPE,
	PROTOCOLS,
	IPV4_SOURCE,
	IPV4_DESTINATION,
	IPV6_SOURCE,
	IPV6_DESTINATION,
	UDP_LENGTH,
	OPCODE,
	QPN,
	PSN,
	ACK_REQUEST,
	PAD,
	SYNDROME,
	MSN,
	VA,
	RKEY,
	DMA_LENGTH,
	SOURCE_QPN,
	CRC,
	UNKNOWN_BYTES,
	CM_ATTRIBUTE,
	CM_DATA,
	REQ_QPN,
	REQ_PSN,
	REQ_PORT,
	REQ_SERVICE,
	REP_QPN,
	REP_PSN,
	REJ_REASON,
	FIELDS,
};

static const char *const field_names[FIELDS] = {
	[NUMBER] = "frame.number",
	[TIME] = "frame.time_epoch",
	[ETHERNET_SOURCE] = "eth.src",
	[COOKED_TYPE] = "sll.pkttype",
	[PROTOCOLS] = "frame.protocols",
	[IPV4_SOURCE] = "ip.src",
	[IPV4_DESTINATION] = "ip.dst",
	[IPV6_SOURCE] = "ipv6.src",
	[IPV6_DESTINATION] = "ipv6.dst",
	[UDP_LENGTH] = "udp.length",
	[OPCODE] = "infiniband.bth.opcode",
	[QPN] = "infiniband.bth.destqp",
	[PSN] = "infiniband.bth.psn",
	[ACK_REQUEST] = "infiniband.bth.a",
	[PAD] = "infiniband.bth.padcnt",
	[SYNDROME] = "infiniband.aeth.syndrome",
	[MSN] = "infiniband.aeth.msn",
	[VA] = "infiniband.reth.va",
	[RKEY] = "infiniband.reth.r_key",
	[DMA_LENGTH] = "infiniband.reth.dmalen",
	[SOURCE_QPN] = "infiniband.deth.srcqp",
	[CRC] = "infiniband.invariant.crc",
	[UNKNOWN_BYTES] = "infiniband.vendor",
	[CM_ATTRIBUTE] = "infiniband.mad.attributeid",
	[CM_DATA] = "infiniband.mad.data",
	[REQ_QPN] = "infiniband.cm.req.localqpn",
	[REQ_PSN] = "infiniband.cm.req.startpsn",
	[REQ_PORT] = "infiniband.cm.req.serviceid.dport",
	[REQ_SERVICE] = "infiniband.cm.req.serviceid",
	[REP_QPN] = "infiniband.cm.rep.localqpn",
	[REP_PSN] = "infiniband.cm.rep.startpsn",
	[REJ_REASON] = "infiniband.cm.rej.reason",
};

/* An ICMP error has the packet in it that it is about, which isn't sent once more. */
#define FILTER "infiniband.bth and not icmp and not icmpv6"

/* --- Running tshark ------------------------------------------------------------------- */

struct tshark {
	pid_t pid;
	FILE *output; /* its lines */
	FILE *errors; /* a temporary file */
};

static void tshark_spawn(struct tshark *tshark, char *const *arguments, int output)
{
	posix_spawn_file_actions_t actions;
	int error;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fileno(tshark->errors), STDERR_FILENO);
	error = posix_spawnp(&tshark->pid, "tshark", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error == ENOENT)
		die("tshark isn't installed, which dissects the captures: "
		    "apt-get install tshark");
	if (error)
		die("tshark: %s", strerror(error));
}

static void tshark_start(struct tshark *tshark, const char *path)
{
	static const char *const fixed[] = {
		"tshark",	"-n", "-Y",	      FILTER, "-T",	      "fields", "-E",
		"separator=/t", "-E", "occurrence=a", "-E",   "aggregator=,", "-r"};
	enum { FIXED = sizeof(fixed) / sizeof(*fixed) };
	const char *arguments[FIXED + 1 + 2 * FIELDS + 1] = {};
	unsigned int count = FIXED;
	int ends[2];

	memcpy(arguments, fixed, sizeof(fixed));
	arguments[count++] = path;
	for (unsigned int i = 0; i < FIELDS; i++) {
		arguments[count++] = "-e";
		arguments[count++] = field_names[i];
	}
	tshark->errors = tmpfile();
	if (!tshark->errors)
		die("there can be no temporary file: %s", strerror(errno));
	if (pipe2(ends, O_CLOEXEC) < 0)
		die("there can be no pipe: %s", strerror(errno));
	tshark_spawn(tshark, (char *const *)arguments, ends[1]);
	close(ends[1]);
	tshark->output = fdopen(ends[0], "r");
	if (!tshark->output)
		die("out of memory");
}

/* What tshark says against a file, but not against being run by root. */
static void print_errors(FILE *errors)
{
	char *line = NULL;
	size_t size = 0;

	rewind(errors);
	while (getline(&line, &size, errors) > 0) {
		if (!strstr(line, "Running as user"))
			fputs(line, stderr);
	}
	free(line);
}

/* Returns whether all was well; else it has said why not. */
static bool tshark_finish(struct tshark *tshark)
{
	int status;

	fclose(tshark->output);
	if (waitpid(tshark->pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		print_errors(tshark->errors);
	else
		status = 0;
	fclose(tshark->errors);
	return status == 0;
}

/* --- Lines -------------------------------------------------------------------------- */

/* Decimal or hexadecimal; of several values the first. Nothing is 0. */
static uint64_t number_of(const char *text)
{
	return strtoull(text, NULL, text[0] == '0' ? 16 : 10);
}

/* "1", or with newer versions "True". */
static bool truth_of(const char *text)
{
	return text[0] == '1' || text[0] == 'T';
}

/* "1795217146.220492000" */
static uint64_t time_of(const char *text)
{
	char *point;
	uint64_t time = strtoull(text, &point, 10) * NS_PER_S, unit = 100000000;

	if (*point == '.')
		for (point++; *point >= '0' && *point <= '9'; point++, unit /= 10)
			time += unit * (*point - '0');
	return time;
}

/* The last of several values. */
static const char *last_of(const char *text)
{
	const char *comma = strrchr(text, ',');

	return comma ? comma + 1 : text;
}

/* Big-endian @length bytes at @offset of a hexadecimal dump; 0 where it ends before. */
static uint64_t bytes_of(const char *hex, size_t offset, size_t length)
{
	char digits[17] = {};

	if (strlen(hex) < 2 * (offset + length))
		return 0;
	memcpy(digits, hex + 2 * offset, 2 * length);
	return strtoull(digits, NULL, 16);
}

static unsigned int address_of(struct trace *trace, const char *text)
{
	for (unsigned int i = trace->address_count; i-- > 0;) {
		if (strcmp(trace->addresses[i], text) == 0)
			return i;
	}
	trace->addresses = trace_grow(trace->addresses, trace->address_count, sizeof(char *));
	trace->addresses[trace->address_count] = trace_text("%s", text);
	return trace->address_count++;
}

/*
 * @protocols: "eth:ethertype:ip:udp:vxlan:eth:ethertype:ipv6:udp:infiniband". What is in a tunnel
 * comes last.
 */
static bool is_ipv4(const char *protocols)
{
	bool ipv4 = false;

	for (const char *name = protocols; *name; name += strspn(name, ":")) {
		size_t length = strcspn(name, ":");

		if (length == strlen("ip") && strncmp(name, "ip", length) == 0)
			ipv4 = true;
		else if (length == strlen("ipv6") && strncmp(name, "ipv6", length) == 0)
			ipv4 = false;
		name += length;
	}
	return ipv4;
}

/*
 * Captures of urxe say in the made-up Ethernet address of the source, before the end of its IP
 * address, whether they are the sender's or the receiver's (net/capture.h). Linux's cooked
 * captures (tcpdump -i any) have a field for it. Others don't say.
 */
static enum side side_of(char *const *values, const char *source)
{
	uint8_t ip[16], mac[6];
	const uint8_t *end;

	if (*values[COOKED_TYPE])
		return number_of(values[COOKED_TYPE]) == 4 ? SIDE_SENDER : SIDE_RECEIVER;
	if (sscanf(values[ETHERNET_SOURCE], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1],
		   &mac[2], &mac[3], &mac[4], &mac[5]) != 6)
		return SIDE_UNKNOWN;
	if (inet_pton(AF_INET, source, ip) == 1)
		end = ip;
	else if (inet_pton(AF_INET6, source, ip) == 1)
		end = ip + 12;
	else
		return SIDE_UNKNOWN;
	if (mac[0] != 2 || mac[1] > 1 || memcmp(mac + 2, end, 4) != 0)
		return SIDE_UNKNOWN;
	return mac[1] == 0 ? SIDE_SENDER : SIDE_RECEIVER;
}

/* Headers that tshark doesn't know. */
static void read_unknown(struct record *record, const char *bytes)
{
	size_t length = strlen(bytes) / 2;

	if (length < ICRC_LENGTH || !record->op)
		return;
	record->crc = bytes_of(bytes, length - ICRC_LENGTH, ICRC_LENGTH);
	if (record->op->aeth) {
		record->syndrome = bytes_of(bytes, record->op->aeth - sizeof(struct bth), 1);
		record->msn = bytes_of(bytes, record->op->aeth - sizeof(struct bth) + 1, 3);
	}
	if (record->op->reth) {
		record->va = bytes_of(bytes, record->op->reth - sizeof(struct bth), 8);
		record->rkey = bytes_of(bytes, record->op->reth - sizeof(struct bth) + 8, 4);
		record->dma_length = bytes_of(bytes, record->op->reth - sizeof(struct bth) + 12, 4);
	}
}

static struct cm *read_cm(char *const *values)
{
	struct cm *cm = trace_allocate(sizeof(*cm));

	*cm = (struct cm){.attribute = number_of(values[CM_ATTRIBUTE]),
			  .local_id = bytes_of(values[CM_DATA], CM_LOCAL_ID, 4),
			  .remote_id = bytes_of(values[CM_DATA], CM_REMOTE_ID, 4),
			  .reason = number_of(values[REJ_REASON])};
	if (cm->attribute == CM_REQ) {
		cm->remote_id = 0;
		cm->qpn = number_of(values[REQ_QPN]);
		cm->psn = number_of(values[REQ_PSN]);
		if (*values[REQ_PORT])
			cm->service =
				trace_text("port %u", (unsigned int)number_of(values[REQ_PORT]));
		else
			cm->service = trace_text("service %s", values[REQ_SERVICE]);
	} else if (cm->attribute == CM_REP) {
		cm->qpn = number_of(values[REP_QPN]);
		cm->psn = number_of(values[REP_PSN]);
	}
	return cm;
}

/* False for what has no IP addresses. */
static bool read_record(struct trace *trace, struct record *record, char *const *values)
{
	bool ipv4 = is_ipv4(values[PROTOCOLS]);
	const char *source = last_of(values[ipv4 ? IPV4_SOURCE : IPV6_SOURCE]);
	uint32_t around;

	if (!*source)
		return false;
	*record = (struct record){
		.file = trace->file_count - 1,
		.number = number_of(values[NUMBER]),
		.time = time_of(values[TIME]),
		.side = side_of(values, source),
		.source = address_of(trace, source),
		.destination = address_of(
			trace, last_of(values[ipv4 ? IPV4_DESTINATION : IPV6_DESTINATION])),
		.opcode = number_of(values[OPCODE]),
		.ack_request = truth_of(values[ACK_REQUEST]),
		.syndrome = number_of(values[SYNDROME]),
		.msn = number_of(values[MSN]),
		.qpn = number_of(values[QPN]),
		.source_qpn = number_of(values[SOURCE_QPN]),
		.psn = number_of(values[PSN]),
		.crc = number_of(values[CRC]),
		.rkey = number_of(values[RKEY]),
		.dma_length = number_of(values[DMA_LENGTH]),
		.va = number_of(values[VA]),
	};
	record->op = opcode_find(record->opcode);
	if (*values[UNKNOWN_BYTES])
		read_unknown(record, last_of(values[UNKNOWN_BYTES]));
	around = 8 + (record->op ? record->op->headers_length : sizeof(struct bth)) +
		 number_of(values[PAD]) + ICRC_LENGTH;
	record->payload = number_of(last_of(values[UDP_LENGTH]));
	record->payload = record->payload > around ? record->payload - around : 0;
	if (*values[CM_ATTRIBUTE] && *values[CM_DATA])
		record->cm = read_cm(values);
	return true;
}

/* Cut a line into its fields. False when it has others. */
static bool cut(char *line, char **values)
{
	unsigned int count = 0;
	char *value;

	line[strcspn(line, "\n")] = '\0';
	while ((value = strsep(&line, "\t")) && count < FIELDS)
		values[count++] = value;
	return count == FIELDS && !value;
}

/* False for one that is there already. */
static bool add_file(struct trace *trace, const char *path)
{
	struct descriptor_identity identity;
	struct stat status;

	/* tshark's own message would name the option and not the file. */
	if (access(path, R_OK) != 0 || stat(path, &status) != 0)
		die("%s: %s", given(path), strerror(errno));
	identity = (struct descriptor_identity){status.st_dev, status.st_ino};
	for (unsigned int i = 0; i < trace->file_count; i++) {
		if (descriptor_same(&trace->files[i].identity, &identity))
			return false;
	}
	trace->files = trace_grow(trace->files, trace->file_count, sizeof(*trace->files));
	trace->files[trace->file_count++] = (struct trace_file){.path = path, .identity = identity};
	return true;
}

void trace_read(struct trace *trace, const char *path)
{
	size_t first = trace->record_count, size = 0;
	struct tshark tshark;
	char *line = NULL, *values[FIELDS];

	if (!add_file(trace, path))
		return;
	tshark_start(&tshark, path);
	while (getline(&line, &size, tshark.output) > 0) {
		trace->records =
			trace_grow(trace->records, trace->record_count, sizeof(struct record));
		if (cut(line, values) &&
		    read_record(trace, &trace->records[trace->record_count], values))
			trace->record_count++;
	}
	free(line);
	/* A capture may end in the middle of a record, and what was read is good. */
	if (!tshark_finish(&tshark) && trace->record_count == first)
		die("%s can't be read", path);
	trace_faults_read(trace, path, first);
}
