"""Replies before and after a change: every command, route and method on fixed inputs.

    python -m replies make DIR                    data and runs, once, by the code before the change
    python -m replies record DIR OUT.jsonl        the reply to every case, by any code
    python -m replies compare OLD NEW [ACCEPTED]  differences that are not accepted; exit code 1

Run it with PYTHONPATH=tools:CHECKOUT/src, where CHECKOUT is the code that replies. `cases/` has the
cases: commands, requests and requests of the explorer as YAML, methods in `methods.py`. DIR stays
where it was made, since runs know where their data is. Only `tree.py` imports the package. Each
file uses only those before it: tree, data, make, plain, commands, servers, methods, record,
compare, __main__.
"""
