/* SPDX-License-Identifier: BSD-2-Clause */
/* Loading it is all that loader.c does with it. */
int plugin(void);

int plugin(void)
{
	return 1;
}
