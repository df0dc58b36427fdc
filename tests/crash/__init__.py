"""Crashes of the deployed functions and of the client on an emulated AWS, at each of their calls in turn.

    story runs ----call 1----call 2----call 3---- ... ----> the end, without a death
                  |     |   |     |   |     |
                  before after       after                  each a copy of the whole process, by fork: it dies there,
                  dies   dies        dies                   is healed by what AWS repeats, and is judged at its end

A story (`stories_*.py`) is what one flow is about: it arranges a topic and marks with `world.mortal(...)` whose calls
are deadly. The run that does not die forks at each of them, so a story is arranged once, however many deaths it has.

| module | what is in it |
|---|---|
| `death` | the hooks on botocore: calls are counted, one is the last of its function or program |
| `branches` | copies of the process, and what they report |
| `world` | a stack, a topic, a person who asks again when his program has died, what was promised |
| `verdict` | what must hold at the end: all there, none early, in time, nothing left behind |
| `story` | a story, and its exploration |
| `stories_*` | the stories |
"""
