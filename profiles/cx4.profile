# ConnectX-4 Lx (mlx5). Numbers that name MT_2420110004 are of a published ibv_devinfo -v of that board with
# firmware 14.27.1016; spdk/spdk#3116 has the same of firmware 14.32.1010, but for max_qp (131072).

description = NVIDIA (Mellanox) ConnectX-4 Lx, mlx5 # part id 4117
fw_ver = 14.27.1016                     # MT_2420110004
max_mr_size = 0xffffffffffffffff        # MT_2420110004
page_size_cap = 0xfffffffffffff000      # MT_2420110004
vendor_id = 0x02c9                      # MT_2420110004
vendor_part_id = 4117                   # MT_2420110004
hw_ver = 0                              # MT_2420110004
max_qp = 262144                         # MT_2420110004
max_qp_wr = 32768                       # MT_2420110004
device_cap_flags = 0xa5721c36           # MT_2420110004
max_sge = 30                            # MT_2420110004
max_sge_rd = 30                         # MT_2420110004
max_cq = 16777216                       # MT_2420110004
max_cqe = 4194303                       # MT_2420110004
max_mr = 16777216                       # MT_2420110004
max_pd = 16777216                       # MT_2420110004
max_qp_rd_atom = 16                     # MT_2420110004
max_res_rd_atom = 4194304               # MT_2420110004
max_qp_init_rd_atom = 16                # MT_2420110004
atomic_cap = hca                        # MT_2420110004
max_mw = 16777216                       # MT_2420110004
max_mcast_grp = 2097152                 # MT_2420110004
max_mcast_qp_attach = 240               # MT_2420110004
max_total_mcast_qp_attach = 503316480   # MT_2420110004
max_ah = 2147483647                     # MT_2420110004
max_srq = 8388608                       # MT_2420110004
max_srq_wr = 32767                      # MT_2420110004
max_srq_sge = 31                        # MT_2420110004
max_pkeys = 128                         # MT_2420110004
local_ca_ack_delay = 16                 # MT_2420110004

device_cap_flags_ex = 0                 # FLUSH and ATOMIC_WRITE: in Linux, rxe alone has them
odp = yes                               # MT_2420110004

max_inline_data = 828                   # 1024 - 192 - 4: rdma-core mlx5/verbs.c, mlx5_calc_send_wqe()

max_msg_sz = 0x40000000                 # MT_2420110004
active_width = 1X                       # MT_2420110004
active_speed = QDR                      # MT_2420110004: 10.0 Gbps (4)
max_vl_num = 0                          # MT_2420110004
subnet_timeout = 0                      # MT_2420110004
lid = 0                                 # MT_2420110004
port_cap_flags = 0x04010000             # MT_2420110004
gid_tbl_len = 256                       # MT_2420110004

round_max_wr = power_of_two             # rdma-core mlx5/verbs.c, mlx5_calc_sq_size(), mlx5_calc_rq_size()
round_cqe = power_of_two_less_1         # likewise, create_cq()
round_max_srq_wr = power_of_two_less_1  # likewise, mlx5_create_srq()
round_max_inline_data = wqe             # likewise, mlx5_calc_sq_size()
sq_wqe_header = 192                     # likewise, sq_overhead() of RC with room for a bind: 16 + 48 + 64 + 64
sq_wqe_unit = 64                        # likewise, MLX5_SEND_WQE_BB
sq_wqe_bytes = 1024                     # linux-rdma/perftest#176: 1004 inline behind a header of 16 and a length of 4
sq_bytes = 2097152                      # max_qp_wr units of 64: rdma-core mlx5/verbs.c, mlx5_calc_sq_size()
post_send_before_rts = held             # rdma-core mlx5/qp.c, _mlx5_post_send() looks at no state
post_recv_in_reset = held               # likewise, mlx5_post_recv()

# Not known, so as urxe has it: device memory, moderation of completion queues.
# On-demand paging: rc_odp_caps has no atomics, and UC none at all; a profile has it whole or not.
# The header of a UD queue pair's work queue entry is smaller (64 bytes); a profile has the one of RC,
# from which max_inline_data and the sizes of send queues follow.
