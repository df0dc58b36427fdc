"""The flows and their specification, in any order of steps and with any failure.

**Seeds**: mixed work of the whole service. One number decides each step.

| file | what is in it |
|---|---|
| `world` | time, chance, running functions, counts |
| `clients`, `plain_senders`, `rules`, `consumers`, `administrators`, `triggers` | the actors |
| `modes`, `faults`, `lasting`, `latency`, `thresholds` | what goes wrong |
| `interleaving` | functions that stop before each call |
| `promises`, `key_promises` | what must, may and must not come |
| `watching`, `checks` | looks during a run, and at its end |
| `service`, `runs`, `__main__`, `trace` | a run, many runs, the command, the story of a failure |

**Guards**: a condition or an order of steps is taken out of the code, until a small world breaks a promise.

| file | what is in it |
|---|---|
| `small_world`, `actors`, `healing` | one topic, two or three functions |
| `exploring` | the orders of their steps, the fewest deviations first |
| `guard`, `removal`, `conditions` | how a guard is taken out of a function or a stored write |
| `guards/` | the guards and their worlds |

**The specification**, `protocol_model`, explores the same promises over a model of the steps.
"""
