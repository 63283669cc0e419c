# ConnectX-3 (mlx4, MT27500). Numbers that name claudebarthels/infinity#5 are of the ibv_devinfo -v in that
# issue, of a card with firmware 2.33.5100.

description = NVIDIA (Mellanox) ConnectX-3, mlx4 # part id 4099
fw_ver = 2.33.5100                      # claudebarthels/infinity#5
max_mr_size = 0xffffffffffffffff        # claudebarthels/infinity#5
page_size_cap = 0xfffffe00              # claudebarthels/infinity#5
vendor_id = 0x02c9                      # claudebarthels/infinity#5
vendor_part_id = 4099                   # claudebarthels/infinity#5
hw_ver = 0                              # claudebarthels/infinity#5
max_qp = 131000                         # claudebarthels/infinity#5
max_qp_wr = 16351                       # claudebarthels/infinity#5
device_cap_flags = 0x057e9c66           # claudebarthels/infinity#5
max_sge = 32                            # claudebarthels/infinity#5
max_sge_rd = 30                         # claudebarthels/infinity#5
max_cq = 65408                          # claudebarthels/infinity#5
max_cqe = 4194303                       # claudebarthels/infinity#5
max_mr = 524032                         # claudebarthels/infinity#5
max_pd = 32764                          # claudebarthels/infinity#5
max_qp_rd_atom = 16                     # claudebarthels/infinity#5
max_res_rd_atom = 2096000               # claudebarthels/infinity#5
max_qp_init_rd_atom = 128               # claudebarthels/infinity#5
atomic_cap = hca                        # claudebarthels/infinity#5
max_mcast_grp = 8192                    # claudebarthels/infinity#5
max_mcast_qp_attach = 248               # claudebarthels/infinity#5
max_total_mcast_qp_attach = 2031616     # claudebarthels/infinity#5
max_ah = 2147483647                     # claudebarthels/infinity#5
max_srq = 65472                         # claudebarthels/infinity#5
max_srq_wr = 16383                      # claudebarthels/infinity#5
max_srq_sge = 31                        # claudebarthels/infinity#5
max_pkeys = 128                         # claudebarthels/infinity#5
local_ca_ack_delay = 15                 # claudebarthels/infinity#5

device_cap_flags_ex = 0                 # FLUSH and ATOMIC_WRITE: in Linux, rxe alone has them
odp = no                                # claudebarthels/infinity#5
max_inline_data = 912                   # linux-rdma/perftest#176: MAX_INLINE, of RC on ConnectX

round_cqe = power_of_two_less_1         # rdma-core mlx4/verbs.c, mlx4_create_cq()
round_max_srq_wr = power_of_two_less_1  # likewise, mlx4_create_srq()
round_max_inline_data = wqe             # rdma-core mlx4/qp.c, mlx4_set_sq_sizes()

# Not known, so as urxe has it: max_msg_sz, the speed of the port, the length of the GID table, the clock.
# max_mw: the driver says 0 though the card has memory windows (MEM_WINDOW, MEM_WINDOW_TYPE_2B), so it is left out.
# max_send_wr: entries are a power of two, less 2 KiB of them and one: rdma-core mlx4/verbs.c; no key has that.
