"""Lies."""


def check(surroundings, seed, asked):
    return 0
