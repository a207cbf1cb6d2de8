"""Runs, sweeps and studies as a self-contained page and as figures (report.py), and a page to look activations up.

It imports nothing here, so that the command can say what is missing without the extra `report`.
"""
