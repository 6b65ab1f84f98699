"""Which operators of a model have tensor maps as they are, and which after a repair: a sweep of a shipped catalogue."""

import legalsat as ls

found = ls.sweep("gpt2", "h200", workers=1)
for verdict, rows in sorted(found.verdicts.items()):
    print(f"{rows} of {found.rows} operators: {verdict}")
