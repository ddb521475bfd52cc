#pragma once

/// The version of this source tree, and the day of it: a release changes them in release.c and nowhere else.
const char *repricer_version(void);
const char *repricer_version_day(void);

/// The commit that the program was built from, as 40 hexadecimal digits; empty where the build was not told.
const char *repricer_commit(void);
