"""The embedded psychometric tests: forced choices at levels along one physical dimension each.

`letters`, `lines`, `scenes` and `degraded` declare the tests (`snellen.psychometrics.stimuli.trials`), `reader`
builds a test as a benchmark: a pool from which a procedure chooses what to ask.
"""
