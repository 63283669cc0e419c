# ConnectX-5 (mlx5). Numbers that name martins3.github.io are of the ibv_devinfo -v in martins3/martins3.github.io
# on GitHub, of a card with firmware 16.31.1014; open-mpi/ompi#6137 and openucx/ucx#9830 agree.

description = NVIDIA (Mellanox) ConnectX-5, mlx5 # part id 4119
fw_ver = 16.31.1014                     # martins3.github.io
max_mr_size = 0xffffffffffffffff        # martins3.github.io
page_size_cap = 0xfffffffffffff000      # martins3.github.io
vendor_id = 0x02c9                      # martins3.github.io
vendor_part_id = 4119                   # martins3.github.io
hw_ver = 0                              # martins3.github.io
max_qp = 262144                         # martins3.github.io
max_qp_wr = 32768                       # martins3.github.io
device_cap_flags = 0x25321c36           # martins3.github.io
max_sge = 30                            # martins3.github.io
max_sge_rd = 30                         # martins3.github.io
max_cq = 16777216                       # martins3.github.io
max_cqe = 4194303                       # martins3.github.io
max_mr = 16777216                       # martins3.github.io
max_pd = 8388608                        # martins3.github.io
max_qp_rd_atom = 16                     # martins3.github.io
max_res_rd_atom = 4194304               # martins3.github.io
max_qp_init_rd_atom = 16                # martins3.github.io
atomic_cap = hca                        # martins3.github.io
max_mw = 16777216                       # martins3.github.io
max_mcast_grp = 2097152                 # martins3.github.io
max_mcast_qp_attach = 240               # martins3.github.io
max_total_mcast_qp_attach = 503316480   # martins3.github.io
max_ah = 2147483647                     # martins3.github.io
max_srq = 8388608                       # martins3.github.io
max_srq_wr = 32767                      # martins3.github.io
max_srq_sge = 31                        # martins3.github.io
max_pkeys = 128                         # martins3.github.io
local_ca_ack_delay = 16                 # martins3.github.io

device_cap_flags_ex = 0x1400000000      # martins3.github.io
odp = yes                               # martins3.github.io
completion_timestamp_mask = 0x7fffffffffffffff # martins3.github.io
max_dm_size = 131072                    # martins3.github.io
max_cq_count = 65535                    # martins3.github.io
max_cq_period = 4095                    # martins3.github.io
max_inline_data = 828                   # 1024 - 192 - 4: rdma-core mlx5/verbs.c, mlx5_calc_send_wqe()

max_msg_sz = 0x40000000                 # martins3.github.io
active_width = 1X                       # martins3.github.io
active_speed = QDR                      # martins3.github.io: 10.0 Gbps (4)
max_vl_num = 0                          # martins3.github.io
subnet_timeout = 0                      # martins3.github.io
lid = 0                                 # martins3.github.io
port_cap_flags = 0x04010000             # martins3.github.io
gid_tbl_len = 255                       # martins3.github.io

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

# On-demand paging: rc_odp_caps has no atomics, and UC none at all; a profile has it whole or not.
# The header of a UD queue pair's work queue entry is smaller (64 bytes); a profile has the one of RC,
# from which max_inline_data and the sizes of send queues follow.
