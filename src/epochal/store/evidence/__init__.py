"""The evidence sheet: the decisive facts of a run on one page, without judgement."""
