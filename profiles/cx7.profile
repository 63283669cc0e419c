# ConnectX-7 (mlx5). No ibv_devinfo -v of one was found: what is known is of its driver and of ibv_devinfo without -v.

description = NVIDIA (Mellanox) ConnectX-7, mlx5 # part id 4129
fw_ver = 28.42.1000                     # deepseek-ai/DeepEP#355
vendor_id = 0x02c9                      # deepseek-ai/DeepEP#355
vendor_part_id = 4129                   # deepseek-ai/DeepEP#355, openucx/ucx#5595
hw_ver = 0                              # deepseek-ai/DeepEP#355

device_cap_flags_ex = 0                 # FLUSH and ATOMIC_WRITE: in Linux, rxe alone has them
lid = 0                                 # deepseek-ai/DeepEP#355

max_inline_data = 828                   # 1024 - 192 - 4: rdma-core mlx5/verbs.c, mlx5_calc_send_wqe()

round_max_wr = power_of_two             # rdma-core mlx5/verbs.c, mlx5_calc_sq_size(), mlx5_calc_rq_size()
round_cqe = power_of_two_less_1         # likewise, create_cq()
round_max_srq_wr = power_of_two_less_1  # likewise, mlx5_create_srq()
round_max_inline_data = wqe             # likewise, mlx5_calc_sq_size()
sq_wqe_header = 192                     # likewise, sq_overhead() of RC with room for a bind: 16 + 48 + 64 + 64
sq_wqe_unit = 64                        # likewise, MLX5_SEND_WQE_BB
sq_wqe_bytes = 1024                     # linux-rdma/perftest#176: 1004 inline behind a header of 16 and a length of 4
post_send_before_rts = held             # rdma-core mlx5/qp.c, _mlx5_post_send() looks at no state
post_recv_in_reset = held               # likewise, mlx5_post_recv()

# Not known, so as urxe has it: all other numbers (max_qp, max_qp_wr and with it sq_bytes, max_sge, max_qp_rd_atom, ...),
# the capability bits, on-demand paging, max_msg_sz and the port. ConnectX-4 to 6 agree in most of them: cx6.profile.
# The header of a UD queue pair's work queue entry is smaller (64 bytes); a profile has the one of RC,
# from which max_inline_data and the sizes of send queues follow.
