"""Pictures whose every pixel is known: what psychometric tests are made of.

`optotypes` has the shapes of eye charts in their published geometry, `canvas` turns shapes into pixels by the share
of each pixel that they cover, `degrade` blurs, adds noise and compresses, `colour` measures differences of colours,
`trials` declares a test. Nothing here is left to chance but what the generator of a trial draws, so the same trial
gives the same bytes on any machine.
"""
