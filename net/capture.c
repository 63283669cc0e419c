/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet capture, written with libpcap. Called by links for each packet that
 * they send or receive. One lock around the file. Records are written to the file's end, as many
 * with one write() as a link has sent or received at once, and none in two pieces: so the file of
 * a process that is killed can be read, and processes can write to the same file.
 */
#include "net/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/descriptor.h"
#include "net/fault/fault_notes.h"
#include "net/file_limit.h"
#include "net/libpcap.h"
#include "net/log.h"
#include "net/wire/gid.h"
#include "net/wire/ip.h"

#define SNAPLEN 65535
#define RECORD_HEADER 16    /* in the file */
#define ETHERNET_LOCAL 0x02 /* a locally administered address */
#define BUFFER_SIZE (256 * 1024)

struct capture {
	pthread_mutex_t lock;
	struct libpcap libpcap;
	char *path;
	pcap_t *pcap;
	pcap_dumper_t *dumper;
	FILE *file; /* the dumper's */
	int fd;
	struct descriptor_identity identity;
	bool pipe;		   /* or another thing that nothing can be beside */
	bool ended;		   /* nothing can be written any more */
	struct fault_notes *notes; /* or NULL */
	char buffer[BUFFER_SIZE];  /* of the file: whole records that weren't written yet */
	uint8_t record[SNAPLEN + 1];
};

/* What the headers of a record are made of. */
struct record {
	const union ibv_gid *source, *destination;
	uint32_t length; /* of the UDP payload */
	uint16_t source_port;
	uint16_t ip_id;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool sent;
};

/* Replace each "%p" by the process id. Returns a path to be freed, or NULL without memory. */
static char *expand_name(const char *name)
{
	char *path = NULL;
	size_t size;
	FILE *stream = open_memstream(&path, &size);

	if (!stream)
		return NULL;
	while (*name) {
		if (name[0] == '%' && name[1] == 'p') {
			fprintf(stream, "%d", (int)getpid());
			name += 2;
		} else {
			fputc(*name++, stream);
		}
	}
	if (fclose(stream) == 0)
		return path;
	free(path);
	return NULL;
}

/* Waits for the process that writes the file's header. */
static void lock_shared(int fd)
{
	while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
		;
}

/*
 * Each process that captures to a file has a shared lock on it as long as it lives. The one
 * that finds none replaces what an earlier run left, and keeps the rest out until it has
 * written the file's header. Returns whether that is to be written.
 */
static bool lock_file(struct capture *capture, int fd)
{
	struct stat status;

	/* A pipe, to Wireshark perhaps, has one writer. */
	capture->pipe = fstat(fd, &status) < 0 || !S_ISREG(status.st_mode);
	if (capture->pipe)
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK) {
			lock_shared(fd);
			return false;
		}
		/* Where the file system has no locks, each is the one. */
		if (status.st_size)
			log_warn("capture %s: what is in it is replaced, be it of another process: "
				 "the file system has no locks (%%p in its name makes a file for "
				 "each)",
				 capture->path);
	}
	fault_notes_remove(capture->path);
	return ftruncate(fd, 0) == 0;
}

/* Returns 0 or an errno. */
static int flush_buffer(struct capture *capture)
{
	if (file_limit_reached(capture->fd, __fpending(capture->file)))
		return EFBIG;
	return capture->libpcap.dump_flush(capture->dumper) == 0 ? 0 : errno;
}

/* 0 or an errno. */
static int open_file(struct capture *capture)
{
	int fd = descriptor_above_standard(
		open(capture->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
	bool first = fd >= 0 && lock_file(capture, fd);
	/* 'c': writing to it, with locks held, is no cancellation point. */
	FILE *file = fd < 0 ? NULL : fdopen(fd, "ac");
	int error;

	if (!file) {
		error = errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	capture->file = file;
	capture->fd = fd;
	capture->identity = descriptor_identify(fd);
	setvbuf(file, capture->buffer, _IOFBF, sizeof(capture->buffer));
	errno = 0;
	capture->dumper = capture->libpcap.dump_fopen(capture->pcap, file);
	if (!capture->dumper) {
		error = errno ? errno : EIO;
		fclose(file);
		return error;
	}
	if (!first)
		__fpurge(file); /* the header, which the file has */
	error = flush_buffer(capture);
	if (error) {
		__fpurge(file);
		capture->libpcap.dump_close(capture->dumper);
		return error;
	}
	lock_shared(fd);
	return 0;
}

bool capture_is_possible(void)
{
	struct libpcap libpcap;

	return libpcap_load(&libpcap);
}

struct capture *capture_open(const char *name)
{
	struct capture *capture = calloc(1, sizeof(*capture));
	int error = ENOMEM;

	if (!capture)
		return NULL;
	if (!libpcap_load(&capture->libpcap)) {
		error = ELIBACC;
		goto free_capture;
	}
	capture->path = expand_name(name);
	if (!capture->path)
		goto free_capture;
	capture->pcap = capture->libpcap.open_dead_with_tstamp_precision(
		DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
	if (!capture->pcap)
		goto free_path;
	error = open_file(capture);
	if (error)
		goto close_pcap;
	pthread_mutex_init(&capture->lock, NULL);
	return capture;

close_pcap:
	capture->libpcap.close(capture->pcap);
free_path:
	free(capture->path);
free_capture:
	free(capture);
	errno = error;
	return NULL;
}

int capture_open_faults(struct capture *capture)
{
	if (capture->pipe)
		return 0;
	capture->notes = fault_notes_open(capture->path);
	return capture->notes ? 0 : errno;
}

bool capture_is_open(const struct capture *capture)
{
	return descriptor_is(capture->fd, &capture->identity);
}

void capture_close(struct capture *capture)
{
	/* Else the number is another file's, and the stream stays. */
	if (capture_is_open(capture))
		capture->libpcap.dump_close(capture->dumper);
	capture->libpcap.close(capture->pcap);
	if (capture->notes)
		fault_notes_close(capture->notes);
	pthread_mutex_destroy(&capture->lock);
	free(capture->path);
	free(capture);
}

void capture_after_fork_child(struct capture *capture)
{
	__fpurge(capture->file);
}

/* As net/capture.h describes them. */
static void ethernet_address(uint8_t *address, const union ibv_gid *gid, bool own)
{
	address[0] = ETHERNET_LOCAL;
	address[1] = own ? 0 : 1;
	memcpy(address + 2, gid->raw + 12, 4);
}

static uint8_t *write_ip(uint8_t *to, const struct record *record)
{
	const struct ip_fields fields = {
		.source = record->source,
		.destination = record->destination,
		.length = record->length,
		.id = record->ip_id,
		.traffic_class = record->traffic_class,
		.flow_label = record->flow_label,
		.hop_limit = record->hop_limit,
	};

	return ip_write(to, &fields);
}

/* Ethernet, IP and UDP. The UDP checksum is 0, as RoCE NICs send it. */
static uint8_t *write_headers(uint8_t *to, const struct record *record)
{
	const struct udphdr udp = {
		.uh_sport = htobe16(record->source_port),
		.uh_dport = htobe16(ROCE_V2_UDP_PORT),
		.uh_ulen = htobe16(sizeof(udp) + record->length),
	};
	struct ether_header ethernet = {
		.ether_type =
			htobe16(gid_is_ipv4(record->destination) ? ETHERTYPE_IP : ETHERTYPE_IPV6),
	};

	ethernet_address(ethernet.ether_dhost, record->destination, !record->sent);
	ethernet_address(ethernet.ether_shost, record->source, record->sent);
	to = mempcpy(to, &ethernet, sizeof(ethernet));
	to = write_ip(to, record);
	return mempcpy(to, &udp, sizeof(udp));
}

static bool fits(uint32_t length)
{
	return length + sizeof(struct ether_header) + sizeof(struct ip6_hdr) +
		       sizeof(struct udphdr) <=
	       SNAPLEN;
}

static void end_capture(struct capture *capture, const char *reason)
{
	__fpurge(capture->file); /* or to close it would write that */
	capture->ended = true;
	log_error("capture %s: %s: it ends here", capture->path, reason);
}

/* Called with the lock held. What can't be written now stays in the buffer. */
static void write_buffer(struct capture *capture)
{
	int error;

	if (capture->ended)
		return;
	if (!capture_is_open(capture)) {
		end_capture(capture, "the application has closed it");
		return;
	}
	error = flush_buffer(capture);
	if (error && error != EINTR && error != EAGAIN)
		end_capture(capture, strerror(error));
}

/* Whether the buffer takes a record of @length whole: else part of it would be written now. */
static bool has_space(const struct capture *capture, uint32_t length)
{
	return __fpending(capture->file) + RECORD_HEADER + length <= BUFFER_SIZE;
}

/* Called with the lock held, the record complete up to @end. Returns its time, or 0. */
static uint64_t dump(struct capture *capture, const uint8_t *end)
{
	uint32_t length = end - capture->record;
	struct pcap_pkthdr header = {.caplen = length, .len = length};
	struct timespec now;

	if (!has_space(capture, length))
		write_buffer(capture);
	if (capture->ended || !has_space(capture, length))
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	header.ts.tv_sec = now.tv_sec;
	header.ts.tv_usec = now.tv_nsec; /* PCAP_TSTAMP_PRECISION_NANO */
	capture->libpcap.dump((u_char *)capture->dumper, &header, capture->record);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void capture_flush(struct capture *capture)
{
	pthread_mutex_lock(&capture->lock);
	write_buffer(capture);
	pthread_mutex_unlock(&capture->lock);
}

void capture_sent(struct capture *capture, struct link_packet *packet, uint16_t source_port,
		  uint16_t ip_id)
{
	const struct record record = {
		.source = &packet->path->source,
		.destination = &packet->path->destination,
		.length = link_packet_length(packet),
		.source_port = source_port,
		.ip_id = ip_id,
		.traffic_class = packet->path->traffic_class,
		.hop_limit = packet->path->hop_limit ?: HOP_LIMIT_DEFAULT, /* the socket's */
		.sent = true,
	};
	uint8_t *end;

	packet->captured = 0;
	if (!fits(record.length))
		return;
	pthread_mutex_lock(&capture->lock);
	end = write_headers(capture->record, &record);
	end = link_packet_copy(packet, end);
	if (end)
		packet->captured = dump(capture, end);
	pthread_mutex_unlock(&capture->lock);
}

void capture_received(struct capture *capture, struct link_frame *frame)
{
	const struct record record = {
		.source = &frame->source,
		.destination = &frame->destination,
		.length = frame->length,
		.source_port = frame->source_port,
		.ip_id = frame->ip_id == IP_ID_UNKNOWN ? 0 : frame->ip_id,
		.traffic_class = frame->traffic_class,
		.flow_label = frame->flow_label,
		.hop_limit = frame->hop_limit,
	};
	uint8_t *end;

	if (!fits(record.length))
		return;
	pthread_mutex_lock(&capture->lock);
	end = write_headers(capture->record, &record);
	end = mempcpy(end, frame->data, frame->length);
	frame->captured = dump(capture, end);
	pthread_mutex_unlock(&capture->lock);
}

void capture_fault(struct capture *capture, uint64_t captured, const char *text)
{
	struct fault_notes *notes;

	if (!captured || capture->pipe)
		return;
	pthread_mutex_lock(&capture->lock);
	if (!capture->notes)
		capture->notes = fault_notes_open(capture->path);
	notes = capture->notes;
	pthread_mutex_unlock(&capture->lock);
	if (notes)
		fault_notes_write(notes, captured, text);
}
