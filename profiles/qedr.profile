# Marvell (QLogic) FastLinQ 41000 (qedr). Numbers that name openucx/ucx#5148 are of the ibv_devinfo -v in that issue, of a card
# with firmware 8.37.7.0. Linux qedr is drivers/infiniband/hw/qedr, Linux qed drivers/net/ethernet/qlogic/qed.

description = Marvell (QLogic) FastLinQ 41000, qedr # part id 32880
fw_ver = 8.37.7.0                       # openucx/ucx#5148
max_mr_size = 0x10000000000             # openucx/ucx#5148
page_size_cap = 0xfffff000              # openucx/ucx#5148
vendor_id = 0x1077                      # openucx/ucx#5148
vendor_part_id = 32880                  # openucx/ucx#5148
hw_ver = 0                              # openucx/ucx#5148
max_qp = 8568                           # openucx/ucx#5148
max_qp_wr = 32767                       # openucx/ucx#5148
device_cap_flags = 0x00209080           # openucx/ucx#5148
max_sge = 4                             # openucx/ucx#5148
max_sge_rd = 4                          # openucx/ucx#5148
max_cq = 17136                          # openucx/ucx#5148
max_cqe = 8388480                       # openucx/ucx#5148
max_mr = 131070                         # openucx/ucx#5148
max_pd = 65536                          # openucx/ucx#5148
max_qp_rd_atom = 32                     # openucx/ucx#5148
max_res_rd_atom = 0                     # openucx/ucx#5148
max_qp_init_rd_atom = 32                # openucx/ucx#5148
atomic_cap = hca                        # Linux qedr/main.c: IB_ATOMIC_GLOB, where the PCIe has atomics
max_mw = 0                              # Linux qed/qed_rdma.c, qed_rdma_init_devinfo()
max_mcast_grp = 0                       # Linux qedr/verbs.c, qedr_query_device() doesn't set it
max_mcast_qp_attach = 0                 # likewise
max_total_mcast_qp_attach = 0           # likewise
max_ah = 8568                           # Linux qed/qed_rdma.c: as many as queue pairs
max_srq_wr = 32767                      # Linux qed/qed_rdma.h, QED_RDMA_MAX_SRQ_WQE_ELEM
max_srq_sge = 4                         # Linux qedr/verbs.c, RDMA_MAX_SGE_PER_SRQ
max_pkeys = 1                           # Linux qed/qed_rdma.h, QED_RDMA_MAX_P_KEY
local_ca_ack_delay = 15                 # likewise, QED_RDMA_ACK_DELAY

device_cap_flags_ex = 0                 # Linux qedr/verbs.c, qedr_query_device() sets none
odp = no                                # likewise
max_inline_data = 128                   # linux-rdma/perftest#110
qp_types = 0x4                          # Linux qedr/verbs.c, qedr_check_qp_attrs(): RC

max_vl_num = 4                          # Linux qedr/verbs.c, qedr_query_port()
lid = 0                                 # likewise

# atomic_cap is none where a PCIe bridge or the root port lacks atomics.
# Not known: max_srq, max_msg_sz, the speed of the port, the length of the GID table, what is rounded.
