"""Worked cases."""


def all_cases(surroundings, report, asked):
    pass
