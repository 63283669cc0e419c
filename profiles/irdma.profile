# Intel E810 (irdma) in RoCEv2 mode. Numbers that name deepseek-ai/3FS#192 are of the ibv_devinfo -v in that issue, of a
# card with firmware 1.74. Linux irdma is drivers/infiniband/hw/irdma.

description = Intel E810, irdma         # part id 5522
fw_ver = 1.74                           # deepseek-ai/3FS#192
max_mr_size = 0x200000000000            # deepseek-ai/3FS#192
page_size_cap = 0x40201000              # deepseek-ai/3FS#192
vendor_id = 0x8086                      # deepseek-ai/3FS#192
vendor_part_id = 5522                   # deepseek-ai/3FS#192
hw_ver = 2                              # deepseek-ai/3FS#192
max_qp = 4092                           # deepseek-ai/3FS#192
max_qp_wr = 8127                        # deepseek-ai/3FS#192
device_cap_flags = 0x01221000           # deepseek-ai/3FS#192
max_sge = 6                             # deepseek-ai/3FS#192
max_sge_rd = 6                          # deepseek-ai/3FS#192
max_cq = 8189                           # deepseek-ai/3FS#192
max_cqe = 1048574                       # deepseek-ai/3FS#192
max_mr = 4194301                        # deepseek-ai/3FS#192
max_pd = 262141                         # deepseek-ai/3FS#192
max_qp_rd_atom = 8                      # deepseek-ai/3FS#192
max_res_rd_atom = 0                     # deepseek-ai/3FS#192
max_qp_init_rd_atom = 8                 # deepseek-ai/3FS#192
atomic_cap = none                       # deepseek-ai/3FS#192
max_mcast_grp = 4096                    # deepseek-ai/3FS#192
max_mcast_qp_attach = 8                 # deepseek-ai/3FS#192
max_total_mcast_qp_attach = 32768       # deepseek-ai/3FS#192
max_ah = 131072                         # deepseek-ai/3FS#192
max_srq = 0                             # deepseek-ai/3FS#192
max_pkeys = 1                           # deepseek-ai/3FS#192
local_ca_ack_delay = 0                  # deepseek-ai/3FS#192

device_cap_flags_ex = 0                 # deepseek-ai/3FS#192: the same bits as device_cap_flags
odp = no                                # deepseek-ai/3FS#192
completion_timestamp_mask = 0           # deepseek-ai/3FS#192: not supported
max_inline_data = 101                   # Linux irdma/user.h, IRDMA_MAX_INLINE_DATA_SIZE; linux-rdma/perftest#139
create_flags = 0                        # Linux irdma/verbs.c, irdma_validate_qp_attrs()
qp_types = 0x14                         # likewise: RC, UD

max_msg_sz = 2147483647                 # Linux irdma/user.h, IRDMA_MAX_OUTBOUND_MSG_SIZE
max_vl_num = 0                          # Linux irdma/verbs.c, irdma_query_port() doesn't set it
subnet_timeout = 0                      # likewise
lid = 1                                 # likewise, irdma_query_port()
port_cap_flags = 0x04050000             # likewise: CM_SUP, REINIT_SUP, and ip_gids
gid_tbl_len = 32                        # likewise

# The driver in Linux has other numbers than that of the issue: max_sge and max_sge_rd 13 (IRDMA_MAX_WQ_FRAGMENT_COUNT),
# max_qp_rd_atom 127 and max_qp_init_rd_atom 255 (icrdma_hw.h). What is here is less, and was seen.
# max_mw: the issue has 0, Linux as many as regions; MEM_WINDOW and MEM_WINDOW_TYPE_2B are there, so it is left out.
# max_send_wr: a ring of a power of two units of 32 bytes, of which 258 stay free (Linux irdma/defs.h, IRDMA_SQ_RSVD); no key has that.
# Not known: what else is rounded, and the speed of the port.
