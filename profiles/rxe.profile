# Linux rxe as of 6.1. "devinfo": what ibv_devinfo -v prints of it on Debian 12, kernel 6.1.0-56,
# rdma-core 44. "rxe_param.h" and the like: files of drivers/infiniband/sw/rxe in Linux 6.1.
description = Linux soft RoCE (rdma_rxe), 6.1

# struct ibv_device_attr
fw_ver = 0.0.0                          # devinfo
vendor_id = 0xffffff                    # devinfo
vendor_part_id = 0                      # devinfo
hw_ver = 0                              # devinfo
max_mr_size = 0xffffffffffffffff        # devinfo
page_size_cap = 0xfffff000              # devinfo
max_qp = 1048560                        # devinfo
max_qp_wr = 1048576                     # devinfo
device_cap_flags = 0x01223c76           # devinfo
max_sge = 32                            # devinfo
max_sge_rd = 32                         # devinfo
max_cq = 1048576                        # devinfo
max_cqe = 32767                         # devinfo
max_mr = 524287                         # devinfo
max_pd = 1048576                        # devinfo
max_qp_rd_atom = 128                    # devinfo
max_ee_rd_atom = 0                      # devinfo
max_res_rd_atom = 258048                # devinfo
max_qp_init_rd_atom = 128               # devinfo
max_ee_init_rd_atom = 0                 # devinfo
atomic_cap = hca                        # devinfo: ATOMIC_HCA
max_ee = 0                              # devinfo
max_rdd = 0                             # devinfo
max_mw = 524287                         # devinfo
max_raw_ipv6_qp = 0                     # devinfo
max_raw_ethy_qp = 0                     # devinfo
max_mcast_grp = 8192                    # devinfo
max_mcast_qp_attach = 56                # devinfo
max_total_mcast_qp_attach = 458752      # devinfo
max_ah = 32767                          # devinfo
max_fmr = 0                             # devinfo
max_srq = 917503                        # devinfo
max_srq_wr = 1048576                    # devinfo
max_srq_sge = 27                        # devinfo
max_pkeys = 64                          # devinfo
local_ca_ack_delay = 15                 # devinfo

# struct ibv_device_attr_ex
device_cap_flags_ex = 0x01223c76        # devinfo: no more than device_cap_flags
odp = no                                # devinfo: general_odp_caps is empty
completion_timestamp_mask = 0           # devinfo: not supported
max_dm_size = 0                         # devinfo: not among its lines
max_cq_count = 0                        # rxe_verbs.c: there is no modify_cq
max_cq_period = 0                       # likewise

# ibv_create_qp()
max_inline_data = 512                   # rxe_param.h: what a WQE of 720 bytes (0x2d0) holds, 32 SGEs
create_flags = 0                        # rxe_verbs.c: any is EOPNOTSUPP
qp_types = 0x1c                         # rxe_qp.c: RC, UC, UD

# struct ibv_port_attr
max_msg_sz = 0x800000                   # devinfo
max_vl_num = 1                          # devinfo
subnet_timeout = 0                      # devinfo
lid = 0                                 # devinfo
port_cap_flags = 0x00010000             # devinfo
gid_tbl_len = 1024                      # devinfo
active_width = 1X                       # devinfo: 1X, whatever the network device is
active_speed = SDR                      # devinfo: 2.5 Gbps, likewise

# Behaviour
retry_cnt_7 = infinite                  # rxe_comp.c: retry_cnt 7 is never counted down
out_of_order = dropped                  # rxe_resp.c, check_psn(): drop all others until the expected one; rxe_comp.c, check_psn()
ack_timeout_factor = 1                  # rxe_qp.c: 4.096 us * 2^timeout, each time
round_cqe = power_of_two_less_1         # rxe_queue.c: one entry of the ring stays free
round_max_wr = none                     # rxe_qp.c: create_qp tells what was asked for
round_max_inline_data = sges            # rxe_qp.c: the greater of both, for both
post_send_before_rts = error            # rxe_verbs.c: EINVAL
post_recv_in_reset = error              # rxe_verbs.c: EINVAL
check_ah_pd = no                        # rxe_req.c: the AH of a number, whatever its domain
zero_length_checks_rkey = no            # rxe_resp.c: C9-88
atomic_alignment = nak                  # rxe_resp.c: by the responder, as an invalid request
send_with_invalidate = works            # rxe_resp.c
resize_cq = yes                         # rxe_verbs.c
grh_ipv4_first_20_bytes = untouched     # rxe_resp.c: skips them
wc_sl = none                            # rxe_comp.c, rxe_resp.c: sl isn't set
