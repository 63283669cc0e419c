/* SPDX-License-Identifier: BSD-2-Clause */
/* What hosts get to see of the search for a neighbour. */
#include "net/wire/wire.h"
#include "open_descriptors.h"
#include "tests/run_suite.h"
#include "verbs/neighbour.h"

#include <arpa/inet.h>
#include <check.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	ck_assert_int_eq(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return address;
}

/* rxe of Linux 6.1 drops what has a BTH; the host of a shorter one may panic. */
START_TEST(what_provokes_a_neighbour_has_a_bth)
{
	struct sockaddr_in source = address_of("127.213.4.8", 0);
	struct sockaddr_in destination = address_of("127.213.4.7", ROCE_V2_UDP_PORT);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned int before = open_descriptors();
	struct bth bth[2];

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&destination, sizeof(destination)), 0);
	neighbour_provoke((struct sockaddr *)&source, (struct sockaddr *)&destination);
	ck_assert_int_eq(recv(fd, bth, sizeof(bth), 0), sizeof(bth[0]));
	ck_assert_uint_eq(bth[0].dest_qp, 0);
	ck_assert_uint_eq(open_descriptors(), before);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("neighbour");
	TCase *tests = tcase_create("neighbour");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_provokes_a_neighbour_has_a_bth);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
