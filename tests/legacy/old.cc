/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers in C++ of their programs' time: it compiles. */
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <rdma/rdma_verbs.h>

int main()
{
	return 0;
}
