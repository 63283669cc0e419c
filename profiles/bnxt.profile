# Broadcom NetXtreme-E (bnxt_re), with work queue entries of a fixed size. Numbers that name uccl-project/uccl#250 are of
# the ibv_devinfo in that issue. Linux bnxt_re is drivers/infiniband/hw/bnxt_re; rdma-core, its providers.

description = Broadcom NetXtreme-E, bnxt_re # uccl-project/uccl#250
max_mr_size = 0x8000000000              # Linux bnxt_re/bnxt_re.h, BNXT_RE_MAX_MR_SIZE_HIGH
page_size_cap = 0x7ffff000              # likewise, BNXT_RE_PAGE_SIZE_SUPPORTED
vendor_id = 0x14e4                      # the PCI vendor: Linux bnxt_re/ib_verbs.c; openucx/ucx#11048
max_qp = 131073                         # uccl-project/uccl#250
max_qp_wr = 4351                        # uccl-project/uccl#250
device_cap_flags = 0x01225d81           # Linux bnxt_re/ib_verbs.c, bnxt_re_query_device()
max_sge = 6                             # Linux bnxt_re/qplib_sp.h, BNXT_STATIC_MAX_SGE
max_sge_rd = 6                          # likewise
max_cq = 65536                          # uccl-project/uccl#250
max_cqe = 8388607                       # uccl-project/uccl#250
max_pd = 65536                          # Linux bnxt_re/qplib_sp.c, bnxt_qplib_get_dev_attr()
max_qp_rd_atom = 126                    # uccl-project/uccl#250; qplib_sp.h, BNXT_QPLIB_MAX_OUT_RD_ATOM
max_res_rd_atom = 0                     # Linux bnxt_re/ib_verbs.c, bnxt_re_query_device()
max_qp_init_rd_atom = 126               # uccl-project/uccl#250; qplib_sp.h, likewise
atomic_cap = hca                        # Linux bnxt_re/ib_verbs.c: IB_ATOMIC_GLOB, where the PCIe has atomics
max_mcast_grp = 0                       # Linux bnxt_re/ib_verbs.c, bnxt_re_query_device()
max_mcast_qp_attach = 0                 # likewise
max_total_mcast_qp_attach = 0           # likewise
max_pkeys = 1                           # likewise
local_ca_ack_delay = 16                 # Linux bnxt_re/bnxt_re.h, BNXT_RE_DEFAULT_ACK_DELAY

device_cap_flags_ex = 0                 # Linux bnxt_re/ib_verbs.c, bnxt_re_query_device() sets none
odp = no                                # likewise
qp_types = 0x14                         # Linux bnxt_re/ib_verbs.c, __from_ib_qp_type(): RC, UD
max_inline_data = 96                    # rdma-core bnxt_re/bnxt_re-abi.h, BNXT_RE_MAX_INLINE_SIZE

max_msg_sz = 0x40000000                 # Linux bnxt_re/ib_verbs.c, bnxt_re_query_port(): BNXT_RE_MAX_MR_SIZE_LOW
max_vl_num = 4                          # likewise
subnet_timeout = 0                      # likewise
lid = 0                                 # likewise
port_cap_flags = 0x041d0000             # likewise, with ip_gids; openucx/ucx#11048

post_send_before_rts = error            # rdma-core bnxt_re/verbs.c, bnxt_re_post_send(): EINVAL
send_with_invalidate = fails            # spdk/spdk#3926: offered, then IBV_WC_LOC_QP_OP_ERR on some firmware

# atomic_cap is none where a PCIe bridge or the root port lacks atomics.
# Entries of variable size, which newer cards have, take more: 13 SGEs (Linux bnxt_re/qplib_sp.h, BNXT_VAR_MAX_SGE).
# Not known, of the firmware: vendor_part_id, fw_ver, max_mr, max_mw, max_ah, max_srq, max_srq_wr, max_srq_sge, gid_tbl_len.
