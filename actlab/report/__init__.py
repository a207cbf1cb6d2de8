"""The report: runs, sweeps and studies as one self-contained page (`report.build`) and as figures (`static.draw`).

It imports nothing here, so that the command can say what is missing without the extra `report`.
"""
