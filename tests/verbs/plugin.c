/* SPDX-License-Identifier: BSD-2-Clause */
int plugin(void);

int plugin(void)
{
	return 1;
}
