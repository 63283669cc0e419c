/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.c - scenario driver for golden captures; runs on any libibverbs device.
 *   peer SCENARIO [--dev rxe0] [--gid N] [--port 18600] [--mtu 256..4096] [--connect HOST]
 * Without --connect: server ("A").  With: client ("B", normally the requester). */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define DIE(...)                                                                                   \
	do {                                                                                       \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fprintf(stderr, " (errno %d %s)\n", errno, strerror(errno));                       \
		exit(1);                                                                           \
	} while (0)
#define BUF (1 << 20)
#define HALF (BUF / 2)
struct info {
	uint32_t qpn, psn, rkey, rkey2;
	uint64_t addr, addr2;
	union ibv_gid gid;
	uint32_t x[4];
};
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static uint8_t *buf;
static struct info me, peer;
static int fd = -1, cli, gidx = 1;
static const char *sc;
static enum ibv_mtu mtu = IBV_MTU_1024;
static int timeout_ = 18, retry = 7, rnr_retry = 7, min_rnr = 12;
static uint8_t tclass = 0, hop = 64;
static uint32_t flow = 0;
static enum ibv_qp_type qpt = IBV_QPT_RC;
static struct ibv_ah *ah;
static int macc = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC;
static void xw(const void *p, size_t n)
{
	const char *c = p;
	while (n) {
		ssize_t r = write(fd, c, n);
		if (r <= 0)
			DIE("oob write");
		c += r;
		n -= r;
	}
}
static void xr(void *p, size_t n)
{
	char *c = p;
	while (n) {
		ssize_t r = read(fd, c, n);
		if (r <= 0)
			DIE("oob read");
		c += r;
		n -= r;
	}
}
static void barrier(void)
{
	char c = 'b';
	xw(&c, 1);
	xr(&c, 1);
}
static void xchg(void)
{
	xw(&me, sizeof me);
	xr(&peer, sizeof peer);
}
static void oob(const char *host, int port)
{
	int one = 1;
	if (!host) {
		int l = socket(AF_INET6, SOCK_STREAM, 0);
		setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		struct sockaddr_in6 s = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
		if (bind(l, (void *)&s, sizeof s) || listen(l, 1))
			DIE("listen");
		fd = accept(l, 0, 0);
		close(l);
	} else {
		struct addrinfo *ai;
		char p[8];
		sprintf(p, "%d", port);
		if (getaddrinfo(host, p, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &ai))
			DIE("resolve");
		for (int i = 0; i < 100; i++) {
			fd = socket(ai->ai_family, SOCK_STREAM, 0);
			if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
				break;
			close(fd);
			fd = -1;
			usleep(100000);
		}
	}
	if (fd < 0)
		DIE("oob");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
static void fill(int off, int len, int seed)
{
	for (int i = 0; i < len; i++)
		buf[off + i] = (uint8_t)(seed * 37 + i);
}
static int check(int off, int len, int seed)
{
	for (int i = 0; i < len; i++)
		if (buf[off + i] != (uint8_t)(seed * 37 + i))
			return 0;
	return 1;
}
static void pwc(const char *t, struct ibv_wc *w)
{
	printf("%s wr_id=%d status=%d(%s) opcode=%d len=%u flags=%x", t, (int)w->wr_id, w->status,
	       ibv_wc_status_str(w->status), w->opcode, w->byte_len, w->wc_flags);
	if (w->wc_flags & IBV_WC_WITH_IMM)
		printf(" imm=%08x", ntohl(w->imm_data));
	if (w->wc_flags & IBV_WC_WITH_INV)
		printf(" inv_rkey=%08x", w->invalidated_rkey);
	printf(" vendor_err=%x qp=%x src_qp=%x slid=%x sl=%d pkey_index=%d\n", w->vendor_err,
	       w->qp_num, w->src_qp, w->slid, w->sl, w->pkey_index);
	fflush(stdout);
}
static struct ibv_wc getwc(const char *t, double secs)
{
	struct ibv_wc w;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (;;) {
		int n = ibv_poll_cq(cq, 1, &w);
		if (n < 0)
			DIE("poll");
		if (n)
			break;
		clock_gettime(CLOCK_MONOTONIC, &b);
		if (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9 > secs) {
			printf("%s NO COMPLETION in %.1f s\n", t, secs);
			memset(&w, 0, sizeof w);
			w.status = 99;
			return w;
		}
		usleep(500);
	}
	pwc(t, &w);
	return w;
}
static void recv_(int id, int off, int len)
{
	struct ibv_sge s = {(uintptr_t)buf + off, len, mr->lkey};
	struct ibv_recv_wr w = {.wr_id = id, .sg_list = &s, .num_sge = len ? 1 : 0}, *b;
	if (ibv_post_recv(qp, &w, &b))
		DIE("post_recv");
}
static struct ibv_send_wr *W(int id, enum ibv_wr_opcode op, int off, int len)
{
	static struct ibv_send_wr w[32];
	static struct ibv_sge s[32];
	static int k;
	k = (k + 1) % 32;
	memset(&w[k], 0, sizeof w[k]);
	s[k] = (struct ibv_sge){(uintptr_t)buf + off, len, mr->lkey};
	w[k].wr_id = id;
	w[k].opcode = op;
	w[k].sg_list = &s[k];
	w[k].num_sge = len ? 1 : 0;
	w[k].send_flags = IBV_SEND_SIGNALED;
	w[k].wr.rdma.remote_addr = peer.addr + HALF;
	w[k].wr.rdma.rkey = peer.rkey;
	if (qpt == IBV_QPT_UD) {
		memset(&w[k].wr, 0, sizeof w[k].wr);
		w[k].wr.ud.ah = ah;
		w[k].wr.ud.remote_qpn = peer.qpn;
		w[k].wr.ud.remote_qkey = 0x11111111;
	}
	return &w[k];
}
static int post(struct ibv_send_wr *w)
{
	struct ibv_send_wr *b;
	int r = ibv_post_send(qp, w, &b);
	if (r)
		printf("post_send: %d\n", r);
	return r;
}
static struct ibv_send_wr *A(int id, enum ibv_wr_opcode op, uint64_t ra, uint64_t cmp_add,
			     uint64_t swap)
{
	struct ibv_send_wr *w = W(id, op, 0, 8);
	w->wr.atomic.remote_addr = ra;
	w->wr.atomic.rkey = peer.rkey;
	w->wr.atomic.compare_add = cmp_add;
	w->wr.atomic.swap = swap;
	return w;
}
static void mkah(struct ibv_ah_attr *a)
{
	memset(a, 0, sizeof *a);
	a->is_global = 1;
	a->port_num = 1;
	a->grh.dgid = peer.gid;
	a->grh.sgid_index = gidx;
	a->grh.hop_limit = hop;
	a->grh.traffic_class = tclass;
	a->grh.flow_label = flow;
}
static void connect_qp(void)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.pkey_index = 0,
				.qkey = 0x11111111,
				.qp_access_flags = !strncmp(sc, "bad_mrperm", 10)
							   ? 15 & ~1
							   : macc & ~IBV_ACCESS_MW_BIND};
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (qpt == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		DIE("INIT");
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = mtu;
	a.dest_qp_num = peer.qpn;
	a.rq_psn = peer.psn;
	a.max_dest_rd_atomic = 8;
	a.min_rnr_timer = min_rnr;
	mkah(&a.ah_attr);
	int m = IBV_QP_STATE;
	if (qpt != IBV_QPT_UD)
		m |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qpt == IBV_QPT_RC)
		m |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (ibv_modify_qp(qp, &a, m))
		DIE("RTR");
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = me.psn;
	a.timeout = timeout_;
	a.retry_cnt = retry;
	a.rnr_retry = rnr_retry;
	a.max_rd_atomic = 8;
	m = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (qpt == IBV_QPT_RC)
		m |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	if (ibv_modify_qp(qp, &a, m))
		DIE("RTS");
	if (qpt == IBV_QPT_UD) {
		struct ibv_ah_attr h;
		mkah(&h);
		ah = ibv_create_ah(pd, &h);
		if (!ah)
			DIE("ah");
	}
}
static int is(const char *n)
{
	return !strcmp(sc, n);
}
static void qstate(void)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	if (!ibv_query_qp(qp, &a, IBV_QP_STATE, &i))
		printf("qp state now %d\n", a.qp_state);
}
int main(int argc, char **argv)
{
	const char *dev = NULL, *host = NULL;
	int port = 18600;
	sc = argc > 1 ? argv[1] : "";
	for (int i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--dev"))
			dev = argv[i + 1];
		else if (!strcmp(argv[i], "--gid"))
			gidx = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--port"))
			port = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--connect"))
			host = argv[i + 1];
		else if (!strcmp(argv[i], "--mtu")) {
			int m = atoi(argv[i + 1]);
			mtu = m == 256 ? 1 : m == 512 ? 2 : m == 1024 ? 3 : m == 2048 ? 4 : 5;
		}
	}
	cli = host != NULL;
	setvbuf(stdout, 0, _IOLBF, 0);
	if (!strncmp(sc, "uc_", 3))
		qpt = IBV_QPT_UC;
	if (!strncmp(sc, "ud_", 3))
		qpt = IBV_QPT_UD;
	if (!strncmp(sc, "tclass", 6)) {
		tclass = 0x2a;
		hop = 17;
		flow = 0x12345;
	}
	if (is("rnr") || is("rnr_exhaust")) {
		min_rnr = 22;
		if (is("rnr_exhaust"))
			rnr_retry = 2;
	}
	if (is("retry_exceeded")) {
		timeout_ = 14;
		retry = 3;
	}
	if (!strncmp(sc, "drop", 4))
		timeout_ = 15;
	if (is("send_inv"))
		macc |= IBV_ACCESS_MW_BIND;
	if (is("bad_perm_write") || is("bad_mrperm_write") || is("bad_mrperm_read"))
		macc = IBV_ACCESS_LOCAL_WRITE |
		       (is("bad_mrperm_read") ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);
	oob(host, port);
	int n;
	struct ibv_device **dl = ibv_get_device_list(&n), *d = NULL;
	for (int i = 0; i < n; i++)
		if (!dev || !strcmp(ibv_get_device_name(dl[i]), dev)) {
			d = dl[i];
			break;
		}
	if (!d || !(ctx = ibv_open_device(d)))
		DIE("no device");
	pd = ibv_alloc_pd(ctx);
	if (posix_memalign((void **)&buf, 4096, BUF))
		DIE("mem");
	memset(buf, 0, BUF);
	if (!(mr = ibv_reg_mr(pd, buf, BUF, macc)))
		DIE("reg_mr");
	cq = ibv_create_cq(ctx, 256, 0, 0, 0);
	struct ibv_qp_init_attr ia = {.send_cq = cq,
				      .recv_cq = cq,
				      .qp_type = qpt,
				      .sq_sig_all = 0,
				      .cap = {64, 64, 4, 4, 0}};
	if (is("atomic_write")) {
		struct ibv_qp_init_attr_ex x = {.send_cq = cq,
						.recv_cq = cq,
						.qp_type = qpt,
						.cap = {64, 64, 4, 4, 0},
						.comp_mask = IBV_QP_INIT_ATTR_PD |
							     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
						.pd = pd,
						.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE};
		qp = ibv_create_qp_ex(ctx, &x);
	} else
		qp = ibv_create_qp(pd, &ia);
	if (!qp)
		DIE("create_qp");
	me.qpn = qp->qp_num;
	me.psn = cli ? 0x0a1b2c : 0x0d0e0f;
	if (is("psn_wrap"))
		me.psn = 0xfffffe;
	me.rkey = mr->rkey;
	me.addr = (uintptr_t)buf;
	if (ibv_query_gid(ctx, 1, gidx, &me.gid))
		DIE("gid");
	xchg();
	connect_qp();
	char g[64];
	inet_ntop(AF_INET6, &peer.gid, g, sizeof g);
	printf("scenario %s: me qpn %06x psn %06x rkey %08x addr %llx; peer qpn %06x psn %06x rkey "
	       "%08x addr %llx gid %s\n",
	       sc, me.qpn, me.psn, me.rkey, (long long)me.addr, peer.qpn, peer.psn, peer.rkey,
	       (long long)peer.addr, g);
	barrier();
	static const int ssz[] = {0, 1, 2, 3, 4, 5, 7, 1023, 1024, 1025, 2048, 2049},
			 wsz[] = {0, 1, 3, 1024, 1025, 4097},
			 rsz[] = {0, 1, 3, 1024, 1025, 4097, 8192};
	if (is("send_sizes") || is("psn_wrap") || !strncmp(sc, "tclass", 6)) {
		int k = is("send_sizes") ? 12 : 3;
		if (!cli) {
			for (int i = 0; i < k; i++)
				recv_(i, i * 8192, 8192);
			barrier();
			for (int i = 0; i < k; i++) {
				struct ibv_wc w = getwc("recv", 10);
				printf("data %s\n", check(i * 8192, w.byte_len, i) ? "ok" : "BAD");
			}
		} else {
			barrier();
			for (int i = 0; i < k; i++) {
				int l = is("send_sizes") ? ssz[i] : 3000;
				fill(0, l, i);
				post(W(i, IBV_WR_SEND, 0, l));
				getwc("send", 10);
			}
		}
	} else if (is("long_send")) { /* use --mtu 256: 157 packets */
		if (!cli) {
			recv_(0, 0, 65536);
			barrier();
			struct ibv_wc w = getwc("recv", 20);
			printf("data %s\n", check(0, w.byte_len, 1) ? "ok" : "BAD");
		} else {
			barrier();
			fill(0, 40000, 1);
			post(W(0, IBV_WR_SEND, 0, 40000));
			getwc("send", 20);
		}
	} else if (is("send_imm")) {
		if (!cli) {
			for (int i = 0; i < 4; i++)
				recv_(i, i * 8192, 8192);
			barrier();
			for (int i = 0; i < 4; i++)
				getwc("recv", 10);
		} else {
			int l[] = {0, 100, 3000, 101};
			barrier();
			for (int i = 0; i < 4; i++) {
				struct ibv_send_wr *w = W(i, IBV_WR_SEND_WITH_IMM, 0, l[i]);
				fill(0, l[i], i);
				w->imm_data = htonl(0xcafe0000 + i);
				if (i == 1)
					w->send_flags |= IBV_SEND_SOLICITED;
				post(w);
				getwc("send", 10);
			}
		}
	} else if (is("write_imm")) {
		if (!cli) {
			for (int i = 0; i < 3; i++)
				recv_(i, 0, 0);
			barrier();
			for (int i = 0; i < 3; i++)
				getwc("recv", 10);
			printf("data %s\n", check(HALF, 3000, 2) ? "ok" : "BAD");
		} else {
			int l[] = {0, 100, 3000};
			barrier();
			for (int i = 0; i < 3; i++) {
				struct ibv_send_wr *w = W(i, IBV_WR_RDMA_WRITE_WITH_IMM, 0, l[i]);
				fill(0, l[i], i);
				w->imm_data = htonl(0xbeef0000 + i);
				post(w);
				getwc("write", 10);
			}
		}
	} else if (is("write_sizes")) {
		if (cli)
			for (int i = 0; i < 6; i++) {
				fill(0, wsz[i], i);
				post(W(i, IBV_WR_RDMA_WRITE, 0, wsz[i]));
				getwc("write", 10);
			}
		barrier();
		if (!cli)
			printf("data %s\n", check(HALF, 4097, 5) ? "ok" : "BAD");
	} else if (is("read_sizes") || is("drop_read")) {
		if (!cli)
			fill(HALF, 65536, 9);
		barrier();
		int k = is("read_sizes") ? 7 : 3;
		if (cli)
			for (int i = 0; i < k; i++) {
				int l = is("read_sizes") ? rsz[i] : 8192;
				memset(buf, 0, 65536);
				post(W(i, IBV_WR_RDMA_READ, 0, l));
				getwc("read", 20);
				printf("data %s\n", check(0, l, 9) ? "ok" : "BAD");
			}
	} else if (is("atomics") || is("drop_atomic")) {
		uint64_t *t = (uint64_t *)(buf + HALF), *r = (uint64_t *)buf;
		if (!cli)
			*t = 1000;
		barrier();
		if (cli && is("atomics")) {
			post(A(0, IBV_WR_ATOMIC_FETCH_AND_ADD, peer.addr + HALF, 7, 0));
			getwc("fa +7", 10);
			printf("orig %llu\n", (long long)*r);
			post(A(1, IBV_WR_ATOMIC_CMP_AND_SWP, peer.addr + HALF, 1007,
			       0x1122334455667788));
			getwc("cs 1007->0x1122334455667788", 10);
			printf("orig %llu\n", (long long)*r);
			post(A(2, IBV_WR_ATOMIC_CMP_AND_SWP, peer.addr + HALF, 5, 6));
			getwc("cs 5->6 (must fail to compare)", 10);
			printf("orig %llx\n", (long long)*r);
			post(A(3, IBV_WR_ATOMIC_FETCH_AND_ADD, peer.addr + HALF, 0xffffffffffffffff,
			       0));
			getwc("fa -1", 10);
			printf("orig %llx\n", (long long)*r);
		} else if (cli)
			for (int i = 0; i < 5; i++) {
				post(A(i, IBV_WR_ATOMIC_FETCH_AND_ADD, peer.addr + HALF, 1, 0));
				getwc("fa +1", 20);
				printf("orig %llu\n", (long long)*r);
			}
		barrier();
		if (!cli)
			printf("final target %llx\n", (long long)*t);
	} else if (is("atomic_write")) {
		uint64_t v = 0x1122334455667788ull;
		barrier();
		if (cli) {
			struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
			ibv_wr_start(x);
			x->wr_id = 1;
			x->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_atomic_write(x, peer.rkey, peer.addr + HALF, &v);
			if (ibv_wr_complete(x))
				DIE("wr_complete");
			getwc("atomic_write", 10);
		}
		barrier();
		if (!cli)
			printf("target %llx\n", (long long)*(uint64_t *)(buf + HALF));
	} else if (is("uc_imm")) {
		int l[] = {50, 3000, 50, 3000, 0};
		if (!cli) {
			for (int i = 0; i < 5; i++)
				recv_(i, i * 8192, 8192);
			barrier();
			for (int i = 0; i < 5; i++)
				getwc("recv", 5);
		} else {
			barrier();
			for (int i = 0; i < 5; i++) {
				struct ibv_send_wr *w =
					W(i,
					  i < 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM,
					  0, l[i]);
				fill(0, l[i], i);
				w->imm_data = htonl(0xabcd0000 + i);
				post(w);
				getwc("send", 5);
			}
		}
	} else if (!strncmp(sc, "ud_imm", 6)) {
		if (!cli) {
			for (int i = 0; i < 5; i++) {
				memset(buf + i * 8192, 0xee, 8192);
				recv_(i, i * 8192, 4096);
			}
			barrier();
			for (int i = 0; i < 4; i++) {
				struct ibv_wc w = getwc("recv", 5);
				if (w.status == 99)
					break;
				printf("GRH area:");
				for (int j = 0; j < 40; j++)
					printf(" %02x", buf[w.wr_id * 8192 + j]);
				printf("\n");
				struct ibv_ah_attr h;
				int r = ibv_init_ah_from_wc(
					ctx, 1, &w, (struct ibv_grh *)(buf + w.wr_id * 8192), &h);
				char s[64];
				inet_ntop(AF_INET6, &h.grh.dgid, s, sizeof s);
				printf("init_ah_from_wc rc %d: dgid %s sgid_index %d hop %d tclass "
				       "%x flow %x dlid %x sl %d\n",
				       r, s, h.grh.sgid_index, h.grh.hop_limit, h.grh.traffic_class,
				       h.grh.flow_label, h.dlid, h.sl);
			}
			/* The fifth has left its sender: here it is seen, and dropped. */
			barrier();
			usleep(200000);
			if (ibv_poll_cq(cq, 1, &(struct ibv_wc){0}))
				DIE("the packet with the wrong qkey was received");
		} else {
			int l[] = {0, 100, 1000, 1024, 33};
			barrier();
			for (int i = 0; i < 5; i++) {
				struct ibv_send_wr *w =
					W(i, i & 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, 0, l[i]);
				fill(0, l[i], i);
				w->imm_data = htonl(0x5a5a0000 + i);
				if (i == 4)
					w->wr.ud.remote_qkey = 0x222;
				post(w);
				getwc(i == 4 ? "send (wrong qkey: receiver must drop)" : "send", 5);
			}
			barrier();
		}
	} else if (is("rnr") || is("rnr_exhaust")) {
		barrier();
		if (cli) {
			fill(0, 2500, 1);
			post(W(0, IBV_WR_SEND, 0, 2500));
			post(W(1, IBV_WR_RDMA_WRITE, 0, 16));
			getwc("send", 20);
			getwc("write after it", 20);
			qstate();
		} else if (is("rnr")) {
			usleep(250000);
			recv_(0, 0, 4096);
			getwc("recv", 10);
			printf("data %s\n", check(0, 2500, 1) ? "ok" : "BAD");
		}
		if (is("rnr_exhaust")) {
			barrier();
			qstate();
		}
	} else if (!strncmp(sc, "bad_", 4) || is("atomic_unaligned")) {
		barrier();
		if (cli) {
			struct ibv_send_wr *w = is("bad_rkey_read") || is("bad_mrperm_read")
							? W(0, IBV_WR_RDMA_READ, 0, 3000)
						: is("atomic_unaligned")
							? A(0, IBV_WR_ATOMIC_FETCH_AND_ADD,
							    peer.addr + HALF + 1, 1, 0)
							: W(0, IBV_WR_RDMA_WRITE, 0, 3000);
			if (!strncmp(sc, "bad_rkey", 8))
				w->wr.rdma.rkey = peer.rkey ^ 0x55;
			if (is("bad_bounds_write"))
				w->wr.rdma.remote_addr = peer.addr + BUF - 1000;
			post(w);
			post(W(1, IBV_WR_RDMA_WRITE, 0, 8));
			getwc("op", 20);
			getwc("flushed", 5);
			qstate();
		}
		barrier();
		if (!cli) {
			struct ibv_wc w;
			recv_(9, 0, 64);
			int k = ibv_poll_cq(cq, 1, &w);
			if (k)
				pwc("recv posted after the error", &w);
			qstate();
		}
	} else if (is("send_too_long")) {
		if (!cli)
			recv_(0, 0, 1500);
		barrier();
		if (cli) {
			post(W(0, IBV_WR_SEND, 0, 3000));
			getwc("send", 20);
			qstate();
		} else {
			getwc("recv", 10);
			qstate();
		}
	} else if (is("retry_exceeded")) {
		if (!cli)
			ibv_destroy_qp(qp);
		barrier();
		if (cli) {
			post(W(0, IBV_WR_SEND, 0, 1500));
			getwc("send", 30);
			qstate();
		}
		barrier();
	} else if (is("mixed")) {
		if (!cli) {
			fill(HALF + 65536, 8192, 3);
			for (int i = 0; i < 3; i++)
				recv_(i, i * 8192, 8192);
			barrier();
			for (int i = 0; i < 3; i++)
				getwc("recv", 10);
		} else {
			barrier();
			struct ibv_send_wr *w[8];
			int k = 0;
			fill(0, 8192, 2);
			w[k++] = W(0, IBV_WR_SEND, 0, 500);
			w[k++] = W(1, IBV_WR_RDMA_WRITE, 0, 2500);
			w[k] = W(2, IBV_WR_RDMA_READ, 65536, 3000);
			w[k++]->wr.rdma.remote_addr = peer.addr + HALF + 65536;
			w[k++] = A(3, IBV_WR_ATOMIC_FETCH_AND_ADD, peer.addr + HALF + 131072, 1, 0);
			w[k - 1]->sg_list->addr = (uintptr_t)buf + 200000;
			w[k] = W(4, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 100);
			w[k++]->imm_data = htonl(0x77);
			w[k] = W(5, IBV_WR_RDMA_READ, 80000, 10);
			w[k++]->wr.rdma.remote_addr = peer.addr + HALF + 65536;
			w[k] = W(6, IBV_WR_SEND, 0, 0);
			w[k++]->send_flags |= IBV_SEND_FENCE;
			for (int i = 0; i < k - 1; i++)
				w[i]->next = w[i + 1];
			post(w[0]);
			for (int i = 0; i < k; i++)
				getwc("op", 10);
		}
	} else if (is("send_inv")) {
		struct ibv_mw *mw = NULL;
		if (!cli) {
			mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
			if (!mw)
				DIE("alloc_mw");
			struct ibv_send_wr w = {.wr_id = 1,
						.opcode = IBV_WR_BIND_MW,
						.send_flags = IBV_SEND_SIGNALED},
					   *b;
			printf("mw rkey before bind %08x\n", mw->rkey);
			w.bind_mw.mw = mw;
			w.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
			w.bind_mw.bind_info = (struct ibv_mw_bind_info){
				mr, (uintptr_t)buf + HALF, 8192,
				IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
			if (ibv_post_send(qp, &w, &b))
				DIE("bind");
			getwc("bind", 5);
			me.rkey2 = w.bind_mw.rkey;
			me.addr2 = (uintptr_t)buf + HALF;
			printf("mw bound, rkey %08x\n", me.rkey2);
			recv_(0, 0, 4096);
			recv_(1, 8192, 4096);
		}
		xchg();
		if (cli) {
			struct ibv_send_wr *w;
			fill(0, 3000, 4);
			w = W(0, IBV_WR_RDMA_WRITE, 0, 1500);
			w->wr.rdma.rkey = peer.rkey2;
			w->wr.rdma.remote_addr = peer.addr2;
			post(w);
			getwc("write through MW", 10);
			w = W(1, IBV_WR_SEND, 0, 64);
			post(w);
			getwc("send", 10);
			w = W(2, IBV_WR_SEND_WITH_INV, 0, 2500);
			w->invalidate_rkey = peer.rkey2;
			post(w);
			getwc("send_with_inv", 10);
			w = W(3, IBV_WR_RDMA_WRITE, 0, 16);
			w->wr.rdma.rkey = peer.rkey2;
			w->wr.rdma.remote_addr = peer.addr2;
			post(w);
			getwc("write through the invalidated MW", 10);
			qstate();
		} else {
			getwc("recv", 10);
			getwc("recv", 10);
		}
		barrier();
	} else if (is("drop_req")) {
		if (!cli) {
			for (int i = 0; i < 12; i++)
				recv_(i, i * 4096, 4096);
			barrier();
			for (int i = 0; i < 12; i++) {
				struct ibv_wc w = getwc("recv", 20);
				printf("data %s\n", check(i * 4096, w.byte_len, i) ? "ok" : "BAD");
			}
		} else {
			barrier();
			for (int i = 0; i < 12; i++) {
				fill(i * 4096, 2500, i);
				post(W(i, IBV_WR_SEND, i * 4096, 2500));
			}
			for (int i = 0; i < 12; i++)
				getwc("send", 20);
		}
	} else if (is("drop_ack")) {
		if (!cli) {
			for (int i = 0; i < 6; i++)
				recv_(i, i * 4096, 4096);
			barrier();
			for (int i = 0; i < 6; i++)
				getwc("recv", 20);
		} else {
			barrier();
			for (int i = 0; i < 6; i++) {
				post(W(i, IBV_WR_SEND, 0, 300));
				getwc("send", 20);
			}
		}
	} else
		DIE("unknown scenario %s", sc);
	barrier();
	printf("done\n");
	return 0;
}
