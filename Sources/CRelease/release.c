#include "release.h"

// Deploy/package reads these two lines, and a test compares them with the changelog.
const char *repricer_version(void) { return "0.1.0"; }
const char *repricer_version_day(void) { return "2026-11-24"; }

// Package.swift passes it on from the environment. A file of C by itself, so that another commit compiles nothing else.
#ifndef REPRICER_COMMIT
#define REPRICER_COMMIT ""
#endif

const char *repricer_commit(void) { return REPRICER_COMMIT; }
