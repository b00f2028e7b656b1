/* Preloaded into a node: its wall clock is wrong by the number of seconds in the file that CHAOS_WALL_CLOCK names. The
 * monotonic clock stays right. gcc -O2 -shared -fPIC -o wall-clock.so wall-clock.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

/* Read anew at every call: it is small, and nothing on a node's hot path asks for the wall clock. */
static long wrong_by(void)
{
	const char *path = getenv("CHAOS_WALL_CLOCK");
	FILE *file = path ? fopen(path, "re") : NULL;
	long seconds = 0;

	if (file) {
		if (fscanf(file, "%ld", &seconds) != 1)
			seconds = 0;
		fclose(file);
	}
	return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int result;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += wrong_by();
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;
	int result = clock_gettime(CLOCK_REALTIME, &exact);

	(void)zone;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return result;
}

time_t time(time_t *copy)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	if (copy)
		*copy = exact.tv_sec;
	return exact.tv_sec;
}
