/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tuning: every constant that was chosen by measuring, with the reason for its
 * value. What the specification or the wire format fixes isn't here. How to
 * measure again: docs/performance.md.
 */
#ifndef URXE_NET_TUNING_H
#define URXE_NET_TUNING_H

/* --- acknowledgements that wait (emu/transport/ack_queue.h), ns ------------------------------ */

/*
 * For the round that finds nothing to receive. The background thread goes on at
 * once while an application that waits for its memory to change needs up to a
 * microsecond to post its answer; a peer that waits for the ACK alone loses this.
 */
#define ACK_DELAY 2000
/*
 * The same where an application has polled lately, ns: it answers, but must get a CPU for it,
 * perhaps that of the background thread. An ACK that leaves before has the peer end its polling,
 * and what comes next waits there for a background thread, too. Longer than QUICK_ACK_AFTER, so
 * that the peer of an application that doesn't answer gets its ACK soon.
 */
#define ACK_DELAY_ANSWER 60000
#define ACK_POLLED_LATELY 10000000
#define ACK_POLLED_GRAIN 100000
/* For a polling thread that finds nothing: its application has had the time to answer. */
#define ACK_DELAY_POLLED 500
/* For rounds that do find something: other QPs' streams mustn't hold up an ACK for ever. */
#define ACK_DELAY_BUSY 20000
/*
 * A stream is acknowledged this often at least. By the bytes, for an ACK costs both sides a system
 * call: one each 32 packets of 1 KiB makes a stream a tenth slower where calls are dear; twice as
 * many bytes make none faster.
 */
#define ACK_BYTES (128u << 10)
#define ACK_PACKETS 64
/*
 * A long message asks for an ACK after as many bytes, or this part of the window, but no more often
 * than each so many packets: other peers answer each request. Asked for each 16 packets whatever
 * the MTU, a stream with packets of 1 KiB is acknowledged twice as often as with 4 KiB, which takes
 * a seventh of the receiver's time where calls are dear.
 */
#define ACK_REQUEST_FRACTION 8
#define ACK_REQUEST_LEAST 16
/*
 * An application that polls, and then computes before it answers, leaves its ACK
 * to the background thread's tick. One that waited longer than this did so in
 * vain, and the next so many of the QP's ACKs don't wait.
 */
#define QUICK_ACK_AFTER 50000
#define QUICK_ACKS 16

/* --- batches ----------------------------------------------------------------------------- */

/*
 * What is sent with one call at the most, four super-packets: what was built so far leaves where
 * the next one might not fit. Where a call takes a microsecond, streams of 1 MiB are a tenth slower
 * with one super-packet a call, and half of that with two.
 */
#define SEND_BYTES (4u << 16)
/*
 * Where many packets are lost, of a message of SEND_STEP_LEAST bytes and more so much leaves with
 * one call: a NAK then waits 16 us for the sender instead of 26, and messages of 1 MiB are 5 to 8 %
 * faster with 1 and 5 % loss. Of 64 KiB they would be 2 to 6 % slower.
 */
#define SEND_STEP (SEND_BYTES / 2)
#define SEND_STEP_LEAST (2 * SEND_BYTES)
/* So many large READ requests must fit the window, or the responder would wait for each. */
#define READ_CHUNKS 4
/*
 * More than this many GSO trains aren't asked for by one READ request. Each request costs the
 * responder a packet to receive and a short train to send: with two trains, READs of 1 MiB were
 * 5 % slower than with four; six gain nothing.
 */
#define READ_CHUNK_TRAINS 4
/* Packets that are worth a request of their own. */
#define READ_CHUNK_LEAST 8
/* Frames to take from the link at a time. */
#define RECEIVE_BATCH 64
/*
 * How many such batches are taken before other links are received from, and an application that
 * polls gets what has come for it; and the bytes that are enough before.
 */
#define RECEIVE_ROUNDS 8
#define RECEIVE_ENOUGH (512u << 10)
/*
 * Frames to check before they are delivered with one locking of their QP: as many
 * as stay in the CPU's L1 cache meanwhile. Posting waits for no more than that.
 */
#define RECEIVE_BURST 16
#define RECEIVE_BURST_BYTES (32u << 10)
/* Of frames for one QP that another thread has locked (emu/deferred.h): a receive buffer more. */
#define DEFERRED_BYTES (1u << 20)
/* How often to look whether it still is, ns, when what unlocks it doesn't say so. */
#define DEFERRED_RETRY 1000000
/*
 * After which a process that was asked to place a packet is asked again, ns
 * (emu/transport/xrc_remote.h).
 */
#define XRC_ASK_AGAIN 5000000
/* Of so many other processes' targets is it known what they have placed here. */
#define XRC_DELEGATES 1024

/* --- packets that arrived behind a lost one (emu/transport/reorder.h), bytes ---------------- */

/* Of a queue pair: a window on a path that isn't long (CWND_LAN), with room to spare. */
#define REORDER_BYTES (4u << 20)
/* Of all those of an HCA; what goes beyond is dropped, and retransmitted. */
#define REORDER_BYTES_ALL (64u << 20)
/* How far ahead: REORDER_BYTES of the smallest path MTU, twice, for READs take PSNs, too. */
#define REORDER_PSNS 32768
/*
 * How late a packet of a connection may come that was reset, ns (qp_may_be_stale()). The longest
 * that a network keeps a packet is unknown; in that of one site, with queues full everywhere, it is
 * far less.
 */
#define STALE_FOR 1000000000
/* A response is placed before its turn if no more requests than these wait for theirs. */
#define MISSING_EARLY_REQUESTS 32
/* The memory is cut from pieces of this size (net/packet_pool.h): 15 large packets. */
#define PACKET_POOL_CHUNK (64u << 10)
/* So many stay for the next time, a window: each page that malloc() gives anew is a page fault. */
#define PACKET_POOL_SPARE 32

/* --- recovery (emu/transport/recovery.h, rtt.h, cwnd.h, arbiter.h), ns and bytes ----------- */

/* Until the first probe as long as no round trip was measured: many round trips of a LAN. */
#define PROBE_TIMEOUT_INITIAL UINT64_C(500000)
/*
 * The least, once one was: a peer whose application polls now and then answers within
 * PROGRESS_TICK.
 */
#define PROBE_TIMEOUT_LEAST UINT64_C(1500000)
/*
 * With fewer bytes between two losses than this (1 % of the packets at an MTU of 4096 are 400 KB)
 * one silence in ten and more is a NAK, or what it asked for, that was lost, too; then the least
 * is some round trips of a loopback.
 */
#define VERY_LOSSY_INTERVAL (1024 * 1024)
#define PROBE_TIMEOUT_VERY_LOSSY UINT64_C(30000)
/*
 * Where a round trip takes less, ns, it is the hosts rather than the path that take the time, and a
 * packet alone is answered sooner than any that was timed among others: an answer that comes soon
 * doesn't show that the packet had only been late.
 */
#define LATE_ROUND_LEAST UINT64_C(200000)

/*
 * What the answer to a retransmission may take beyond two round trips, and still say
 * that the peer wasn't slow: a process that sleeps is woken in as much.
 */
#define PROBE_ANSWER_SLACK UINT64_C(250000)
/*
 * The least before anything is sent twice where nothing was lost for a while: there a missing
 * answer is that of a busy machine, which gives the CPU to others for some time slices.
 */
#define RETRANSMIT_TIMEOUT_LEAST UINT64_C(10000000)
/* The same as long as no round trip was measured: that of another continent. */
#define RETRANSMIT_TIMEOUT_INITIAL UINT64_C(200000000)
/*
 * Probes in a row: each waits twice as long as the one before, then what is missing is left to the
 * ACK timeout. The first PROBE_NEXT_COUNT of them send new packets, if there are any.
 */
#define PROBE_COUNT 4
#define PROBE_NEXT_COUNT 2
/*
 * Where packets are likely to be lost, so many of the probes retransmit the oldest packet while
 * sending goes on.
 */
#define RETRANSMIT_EARLY_COUNT 3
/*
 * How soon to look again whether all has been read that had arrived when the ACK timeout expired,
 * and for how long, ns: a process that always has more to read than it can is none to wait for.
 */
#define TIMEOUT_PUT_OFF 1000000
#define TIMEOUT_PUT_OFF_MOST 1000000000
/* More old packets than this that come again behind a lost one: the requester goes back N. */
#define GO_BACK_N_SEEN 32
/*
 * Gaps of a peer that drops what is behind them, until one of them is retransmitted alone to see
 * whether it does: two runs of losses look the same.
 */
#define DROPS_UNTIL_RETRANSMIT 32
/* Packets in a row that a peer which keeps what is behind a gap may have lost. */
#define RETRANSMIT_RUN 3
/* Some round trips, of which one will have been as short as the path allows. */
#define RTT_RECENT 3
/* How long the longest round trip is remembered: stalls on a busy machine are rarer than this. */
#define RTT_PERIOD UINT64_C(4000000000)
/*
 * How old the shortest round trip gets until it is measured anew, as BBR has it, and for so many
 * rounds, with so much of the window: what costs half of a percent of a path of 20 ms finds out
 * that another route takes longer.
 */
#define RTT_LEAST_PERIOD UINT64_C(10000000000)
#define RTT_LEAST_ROUNDS 3
#define CWND_DRAIN_FRACTION 4

/* Fits the smallest receive buffers (208 KiB) along with what others send. */
#define CWND_INITIAL (64 * 1024)
/* A few packets fit everywhere, and fewer than this couldn't show a loss by what follows it. */
#define CWND_LEAST (8 * CWND_SEGMENT)
/*
 * Several times the socket buffer that an unprivileged receiver gets, for those that have more;
 * beyond it loopback and LANs gain nothing.
 */
#define CWND_LAN (2 * 1024 * 1024)
#define CWND_MOST (64 * 1024 * 1024)
/*
 * What is left of a window by single losses where the round trip is this short: with 1 % of the
 * packets lost a loopback reaches half its rate with 128 KiB, three quarters with 256 KiB, 92 %
 * with 512 KiB, all of it with this: a gap is repaired while the next ones are on their way. With
 * 1 MiB what is on its way and what it is copied to don't fit into a cache of 2 MiB. A smaller
 * receive buffer overflows by many packets at once, which leave less.
 */
#define CWND_SHORT_ROUND UINT64_C(500000)
#define CWND_SHORT_LEAST (768 * 1024)
/* Losses so close together are one event, however short the round trip. */
#define CWND_ROUND_LEAST UINT64_C(1000000)
/* What is less than this fraction of the window waits for more space; a call costs too much. */
#define CWND_BURST_FRACTION 4
/* But two super-packets are always worth a call. */
#define CWND_BURST_MOST (512 * 1024)

/* Of paths only a satellite's is as long; a peer that begins late may seem to be. */
#define PACER_ROUND_MOST UINT64_C(500000000)
/* RFC 9002, 7.7: how much faster than the window over the round trip. */
#define PACER_GAIN 1.25
/*
 * What leaves at once, as a time: this part of a round trip, and not more than a millisecond,
 * unless CWND_INITIAL takes longer (RFC 9002, 7.7). And what a pause allows beyond that, such as a
 * thread's that gets no CPU. With a quarter of a round trip a queue of an eighth of one overflowed:
 * 25 instead of 60 MiB/s at 1 Gbit/s and 20 ms.
 */
#define PACER_FRACTION 16
#define PACER_BURST_MOST UINT64_C(1000000)

/*
 * A queue pair answers marked packets with one CNP in this time: as the DCQCN paper has it, and
 * far less than the round trip in which the sender reduces its window once.
 */
#define CNP_INTERVAL 50000

/* --- the background thread (verbs/progress.c), ns ------------------------------------------ */

/*
 * How long it goes on making progress after one that found something. Being woken
 * takes 20 us and costs the sender as much; a peer or an application that answers within
 * this time, as those do that wait for each other, never finds it asleep.
 */
#define PROGRESS_SPIN 200000
/*
 * A yield that took this long gave another thread a whole time slice: that one needs the CPU.
 * Then the thread doesn't spin for a while, but sleeps, and is woken at once when
 * something arrives. Short ones are normal: the peers' threads yield, too.
 */
#define PROGRESS_YIELD_LOST 500000
#define PROGRESS_CPU_CONTENDED 10000000
/* A thread that spins looks this often whether other clients' descriptors have become readable. */
#define PROGRESS_SLICE 100000
/* Noting every poll would send the cache line back and forth. */
#define PROGRESS_POLL_GRAIN 1000
/*
 * How long a thread polls that waits for an event in a call; it does so where it didn't have to
 * wait longer the last time. As long as the thread would spin that had to wake it.
 */
#define EVENT_POLL PROGRESS_SPIN
/* A call that finds no event and isn't to wait polls if nothing else has for this long. */
#define EVENT_LOOK 2000
/* After so many events in a row that were found waiting, the application waits elsewhere. */
#define EVENTS_FOUND 8
/*
 * Polls in a loop are a microsecond apart. Without one for this long the application does
 * something else.
 */
#define PROGRESS_POLL_GAP 3000
/* A call that posts a small message takes up to so long: half as much again as a system call. */
#define PROGRESS_POST 5000
/*
 * An application that computes between its polls still polls; the thread mustn't
 * wait on a socket that is being polled, which makes every packet twice as expensive.
 */
#define PROGRESS_POLL_STOPPED 50000
/*
 * How often to look whether polling goes on: what arrives after it ended waits this long, or a part
 * of the time for which the application has polled without a pause. Each look costs a ping-pong
 * that goes on some 35 us in a virtual machine.
 */
#define PROGRESS_TICK 1000000
#define PROGRESS_TICK_SHARE 16
#define PROGRESS_TICK_MOST 4000000
/*
 * A packet that has waited for the progress thread's tick, while the application hadn't polled for
 * so long, was neglected: the application had the CPU, most likely, and the next packet would wait,
 * too. So for PROGRESS_NEGLECT_FOR the thread is woken whenever the application may have begun to
 * wait. To look every 100 us instead cost a fifth of a CPU.
 */
#define PROGRESS_NEGLECT 200000
#define PROGRESS_NEGLECT_FOR 20000000
/*
 * For how long then a poll receives what comes next, though it has found a completion: a packet
 * that is lost, and the silence after it, are a few tens of us. What takes longer than a message
 * does was lost. In vain it isn't done again for up to twice as many of these polls.
 */
#define PROGRESS_AWAIT 100000
#define PROGRESS_AWAIT_LONG 20000
#define PROGRESS_AWAIT_PAUSES 64
/*
 * An application that sleeps for its events polls once or twice around each
 * sleep; one that polls this often without progress_app_sleeping() means it.
 */
#define PROGRESS_POLLS_BELIEVED 8
/*
 * Polls that are further apart don't add up to that. Those of a stream are as far apart as it takes
 * to send what an acknowledgement allows, or to receive what has arrived meanwhile; an application
 * that is left alone between such polls keeps its peers waiting for no longer.
 */
#define PROGRESS_POLLS_APART 200000
/* A round that achieves nothing (another thread is taking one) isn't repeated at once, */
#define PROGRESS_RETRY 50000
/*
 * and after so many in a row the descriptors are left to the thread that reads them: for a tick,
 * or where an application may wait without polling only for so long.
 */
#define PROGRESS_IDLE_POLLS 16
#define PROGRESS_UNWATCHED 100000
/* How long an application that closes all descriptors may take for it. */
#define PROGRESS_CLOSING 10000000
/*
 * How long descriptors that were seen to be ours are taken to be. To look costs as much as an
 * empty read; the first use after a pause always looks.
 */
#define UDP_VERIFY 1000000

/* --- polling threads that yield (verbs/poll_yield.c), ns ------------------------------------- */

/*
 * A thread that has polled in a loop and found nothing for so long gives up its CPU once, for the
 * peer or another thread of ours may wait for it (verbs/poll_yield.h): where two threads poll on
 * two CPUs, a stream to them otherwise gets a third of what it could. A few times what a message
 * takes to come back.
 */
#define POLL_YIELD_AFTER 12000
/* And after at least so many polls, which take longer where system calls are slow. */
#define POLL_YIELD_POLLS 20
/*
 * If another thread ran during that yield, the next one comes this soon. With three threads on two
 * CPUs, two of which post while the third receives, each poll that finds nothing takes time from a
 * thread that has work: with 20 us they reach two thirds of the rate, with 0.3 us no more than with
 * this.
 */
#define POLL_YIELD_AFTER_WANTED 1000
/*
 * A yield that takes longer than this has given the CPU to a thread that computes, until the
 * kernel's tick (every 4 ms) took it away: then the polling thread doesn't yield again for
 * PROGRESS_CPU_CONTENDED. To receive what a window holds takes a peer half of this.
 */
#define POLL_YIELD_LOST 2000000
/*
 * How often a thread whose polls find something, and which doesn't yield, looks whether the kernel
 * has taken its CPU away: a thread that keeps its CPU may keep polling for those that lose theirs.
 */
#define POLL_LOOK_AFTER 1000000
/*
 * A thread whose CPU is wanted sleeps while another one, the keeper, polls for both. The keeper
 * isn't believed to poll any more so long after it began its last poll (to fill the windows of
 * several QPs takes more than 100 us); and the thread sleeps for so long at most, for the
 * application may expect it to look at something else, too.
 */
#define POLL_KEEPER_STOPPED 500000
#define POLL_SLEEP_MOST 1000000
/*
 * Threads that poll a queue so often one after the other, and never two at once, have a lock of the
 * application's when they poll. They are believed to have it for so long after the last turn: where
 * one yields with such a lock, the kernel may keep the others waiting for half a second.
 */
#define POLL_TURNS 3
#define POLL_TURNS_FOR 10000000000

/* --- messages that wait for more of them (emu/transport/requester.c) ------------------------- */

/*
 * A super-packet of them, by their number or their bytes: the call costs as much as the bytes. Half
 * as many make the rate of deep queues a fifth lower. Where each went alone from 512 bytes on,
 * streams of messages of 4 KiB had a fifth of the rate.
 */
#define COALESCE_POSTED 64
#define COALESCE_BYTES 60000
/*
 * A QP that has so many messages under way waits for the calls rather than for the answers:
 * the first ACK is back before as many could be sent one by one. With 32 instead,
 * queues of 16 to 64 requests reach half the rate.
 */
#define COALESCE_UNDER_WAY 8
/* Where an answer takes longer, ns, what was coalesced goes at the next poll instead. */
#define COALESCE_ROUND_MOST UINT64_C(200000)

/* --- the UDP link (net/udp/udp_send.c) ------------------------------------------------------- */

/*
 * Calls that send to a destination until a socket is connected to it, which costs some 50 us. Each
 * try in vain doubles them, up to where another one costs next to nothing.
 */
#define UDP_CONNECT_AFTER 100
#define UDP_CONNECT_BACKOFF_MOST 100000
/*
 * Datagrams of a connection that are segmented alike, one after the other, until its socket has
 * that as an option, which takes 0.2 us to set, and without which each takes 50 ns more to send.
 */
#define UDP_SEGMENT_AFTER 16
/*
 * After so many bytes that were written into memory of which another CPU reads, as many as a trial
 * are written in the other way, and compared with the last ones by the shortest time for a block
 * (net/choice.h): some blocks, of which one isn't interrupted. Where the other way takes four times
 * as long, and all of the memory has to be written for a trial, trials cost a twentieth. Past the
 * caches it has to take half the time (net/stores.h): what the receiver then fetches from memory
 * takes it longer than from a cache that both share.
 */
#define STORES_ROUND (UINT64_C(128) << 20)
#define STORES_TRIAL (256u << 10)
#define STORES_PERCENT 200

/*
 * Super-packets from this length on may be spliced (net/udp/udp_splice.h), in one of so many blocks
 * of 64 KiB. They go through the caches in turn: with 64 several streams at once are a tenth
 * slower; with 16 the receiver's socket is asked too often, and often has more than that. Where no
 * block is free, it isn't asked again for so many super-packets.
 */
#define UDP_SPLICE_LEAST (32u << 10)
#define UDP_SPLICE_BLOCKS 32
#define UDP_SPLICE_PAUSES 16
/*
 * Whether it is worth it is tried after so many bytes of a stream, and after each such round, with
 * spans that are some windows long. On some machines streams are a tenth faster spliced; on others
 * they are a tenth slower, and with 1 % loss a third: trials cost less than a hundredth there.
 */
#define UDP_SPLICE_FIRST (UINT64_C(64) << 20)
#define UDP_SPLICE_ROUND (UINT64_C(1) << 30)
#define UDP_SPLICE_TRIAL (16u << 20)
#define UDP_SPLICE_SPAN (4u << 20)
#define UDP_SPLICE_PERCENT 110
/*
 * Bytes for another process of the same address until blocks are for that one: new ones, whose
 * pages cost half a millisecond.
 */
#define UDP_SPLICE_OTHER (64u << 20)

/* --- pacing of what isn't acknowledged (emu/transport/pacing.h, net/udp/backlog.h), ns ------- */

/* How often to look at a full receiver: a call costs some 2 us; what it reads meanwhile fits. */
#define PACING_INTERVAL 50000
/*
 * For how long a full receiver is waited for: where 20 others want the same CPU, one that reads
 * gets it back after as many time slices. One that is stopped costs this once.
 */
#define PACING_PATIENCE 200000000
/*
 * Each byte that a receiver takes gives it back so much of PACING_PATIENCE. So a receiver that
 * reads 10 MB a second is waited for forever, and one that reads a tenth of that for a tenth of the
 * time: receivers behind it in a send queue keep most of their rate.
 */
#define PACING_PATIENCE_PER_BYTE 100
/* How much of PACING_PATIENCE a stopped receiver must have earned to be waited for again. */
#define PACING_PATIENCE_AGAIN 10000000
/* How often to look whether a stopped receiver reads again, an unknown one has become known. */
#define PACING_RECHECK 1000000

/*
 * How far to fill a receiver on this machine, bytes in the kernel's accounting, though its
 * buffer be larger: behind 32 MB of small datagrams all other packets to it wait for
 * longer than their retries take, when the receiver gets little of the processor.
 */
#define BACKLOG_MAX (4u << 20)

/* --- addresses that are shared (net/udp/udp_share.h) --------------------------------------- */

/*
 * What came within this time of a repair was under way, ns; and how often trouble that
 * stays is looked at: a repair costs a signal, and perhaps a wake-up, a member.
 */
#define SHARE_REPAIR_PAUSE 1000000
#define SHARE_REPAIR_PAUSE_MAX 512000000
/* The roster's lock is held for as long as it takes to write a program. */
#define SHARE_LOCK_RETRY 200000
/* How long the death of a process may stay unnoticed by its idle peers on this machine, ns. */
#define CM_WATCH_INTERVAL 1000000000
/*
 * How often the control socket is read though nothing was notified, ns. Only what a process sent
 * that was killed before it notified waits for that; a read in vain costs 0.3 to 1 us.
 */
#define SHARE_CONTROL_LOOK 500000

/* --- the link of shared memory (net/shm) ----------------------------------------------------- */

/*
 * Of a ring. 1 MiB streams as fast as any size up to 4 MiB, 512 KiB nearly so, 256 KiB at half the
 * rate: one side then waits for the other whenever that loses its CPU for a moment.
 */
#define RING_BYTES (1u << 20)
/*
 * What RC may have under way in a ring: it has space for the responses to the peer's READs, too,
 * and a packet counts for the window with more than it takes there.
 */
#define SHM_CAPACITY (RING_BYTES / 2)
/*
 * What may be unread in a ring for UC and UD to send more: what others send is behind it, for as
 * long as the receiver takes to read it.
 */
#define SHM_PACED (RING_BYTES / 2)
/*
 * What a writer keeps to itself before it has the reader see it all at once: small packets of one
 * call belong together, while a stream is read as it is written.
 */
#define SHM_PUBLISH 8192
/* Of a ring, in one call: what is read stays in the CPU's L2 cache until it is delivered. */
#define SHM_READ_MOST (RING_BYTES / 8)
/*
 * Rings that a poll looks at before it gives up: some 100 ns, which is what a poll takes. A message
 * is seen sooner, and how soon depends less on when it came.
 */
#define SHM_LOOKS 10
/*
 * How long ago a ring was empty where it can't have more than what was just published, ns. Timeouts
 * believe that all was read which had arrived when it was looked: so far they may be wrong.
 */
#define SHM_JUST_EMPTY 10000
/* Payload from so many bytes on may be written past the caches (net/stores.h). */
#define SHM_NONTEMPORAL_LEAST 1024

/*
 * What was written by another CPU takes as long to come from its cache as half a packet to copy,
 * unless it was asked for before: so many records ahead, which in a stream are of one size, and of
 * the next packet so many cache lines, from where on the CPU itself sees where it goes. Not for
 * small packets: there the writer would have to take the lines back.
 */
#define SHM_PREFETCH_RECORDS 4
#define SHM_PREFETCH_LINES 8
#define SHM_PREFETCH_LEAST 1024 /* bytes of a packet */
/*
 * Bytes that may wait for space. RC's window stays far below; what is beyond is lost. So is what UC
 * and UD send to a process that has been stopped for longer than they wait.
 */
#define SHM_WAITING_MAX (8u << 20)
#define SHM_WAITING_PACED (RING_BYTES / 4)
/* How soon to look for space for it, and how rarely if there is none, ns. */
#define SHM_RETRY_LEAST 20000
#define SHM_RETRY_MOST 2000000
/*
 * How often to receive from UDP while there are rings, ns: some system calls a second. It is
 * likelier that something comes so soon after something came.
 */
#define SHM_UDP_RARELY PROGRESS_TICK
#define SHM_UDP_OFTEN 50000
#define SHM_UDP_RECENT 10000000
/* How often to look whether the other processes live, ns: a system call for each. */
#define SHM_CHECK 1000000000

#endif
