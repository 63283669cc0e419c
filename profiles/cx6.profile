# ConnectX-6 Dx (mlx5). Numbers that name MT_0000000359 are of a published ibv_devinfo -v of that board with
# firmware 22.36.1010; ConnectX-6 (part id 4123, openucx/ucx#8229) agrees but for max_qp (262144).

description = NVIDIA (Mellanox) ConnectX-6 Dx, mlx5 # part id 4125
fw_ver = 22.36.1010                     # MT_0000000359
max_mr_size = 0xffffffffffffffff        # MT_0000000359
page_size_cap = 0xfffffffffffff000      # MT_0000000359
vendor_id = 0x02c9                      # MT_0000000359
vendor_part_id = 4125                   # MT_0000000359
hw_ver = 0                              # MT_0000000359
max_qp = 131072                         # MT_0000000359
max_qp_wr = 32768                       # MT_0000000359
device_cap_flags = 0xed721c36           # MT_0000000359
max_sge = 30                            # MT_0000000359
max_sge_rd = 30                         # MT_0000000359
max_cq = 16777216                       # MT_0000000359
max_cqe = 4194303                       # MT_0000000359
max_mr = 16777216                       # MT_0000000359
max_pd = 8388608                        # MT_0000000359
max_qp_rd_atom = 16                     # MT_0000000359
max_res_rd_atom = 2097152               # MT_0000000359
max_qp_init_rd_atom = 16                # MT_0000000359
atomic_cap = hca                        # MT_0000000359
max_mw = 16777216                       # MT_0000000359
max_mcast_grp = 2097152                 # MT_0000000359
max_mcast_qp_attach = 240               # MT_0000000359
max_total_mcast_qp_attach = 503316480   # MT_0000000359
max_ah = 2147483647                     # MT_0000000359
max_srq = 8388608                       # MT_0000000359
max_srq_wr = 32767                      # MT_0000000359
max_srq_sge = 31                        # MT_0000000359
max_pkeys = 128                         # MT_0000000359
local_ca_ack_delay = 16                 # MT_0000000359

device_cap_flags_ex = 0x1500000000      # MT_0000000359
odp = yes                               # MT_0000000359
completion_timestamp_mask = 0x7fffffffffffffff # MT_0000000359
max_dm_size = 131072                    # MT_0000000359
max_cq_count = 65535                    # MT_0000000359
max_cq_period = 4095                    # MT_0000000359
max_inline_data = 828                   # 1024 - 192 - 4: rdma-core mlx5/verbs.c, mlx5_calc_send_wqe()

max_msg_sz = 0x40000000                 # MT_0000000359
active_width = 4X                       # MT_0000000359
active_speed = EDR                      # MT_0000000359: 25.0 Gbps (32)
max_vl_num = 0                          # MT_0000000359
subnet_timeout = 0                      # MT_0000000359
lid = 0                                 # MT_0000000359
port_cap_flags = 0x04010000             # MT_0000000359
gid_tbl_len = 255                       # MT_0000000359

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
ack_timeout_factor = 1.66               # unionxic/rdma-fault-characterization: RETRY_EXC after 3.5 s at 14, 58 s at 20, with 8 tries
ack_timeout_least = 16                  # likewise: 3.5 s are what 16 would take with that factor

# On-demand paging: rc_odp_caps has no atomics, and UC none at all; a profile has it whole or not.
# The header of a UD queue pair's work queue entry is smaller (64 bytes); a profile has the one of RC,
# from which max_inline_data and the sizes of send queues follow.
