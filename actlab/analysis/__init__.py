"""From tables of results to verdicts: results.py reads, contrasts.py measures, comparison.py and verdicts.py conclude.

effects.py holds the statistics, study.py the folder of a study. Reads workdirs and never trains.
"""
