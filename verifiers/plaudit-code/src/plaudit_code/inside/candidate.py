"""Runs the candidate's program and does what the host asks: call a function, evaluate an expression. Knows no answer.

`SOURCE`, `ENTRY` and `plain` (the module of that name) are put in front by the host.
"""

import json
import sys

import plaudit_host

_call, _dumps, _loads, _encode, _decode = plaudit_host.call, json.dumps, json.loads, plain.encode, plain.decode  # noqa: F821
_exec, _eval, _compile, _type, _str, _hasattr, _getattr = exec, eval, compile, type, str, hasattr, getattr


def _tell(message):
    return _loads(_call(_dumps(message).encode()))


def _described(error):
    try:
        text = _str(error)[:300]
    except BaseException:
        text = ""
    return {"error": _type(error).__name__, "message": text}


def _find(namespace, entry):
    """The function behind `entry`: a name, `Class.method`, or a method of a class named Solution."""
    owner, _, method = entry.rpartition(".")
    if owner:
        found = namespace[owner]
        return _getattr(found() if _type(found) is type else found, method)
    if entry in namespace:
        return namespace[entry]
    return _getattr(namespace["Solution"](), entry)


def _do(request, source, namespace, entry):
    kind = request["do"]
    if kind == "call":
        args, kwargs = _decode(request["args"]), _decode(request["kwargs"])
        value = _find(namespace, request.get("name") or entry)(*args, **kwargs)
        return {"value": _encode(value), "args": _encode(args)}
    if kind == "eval":
        return {"value": _encode(_eval(_compile(request["source"], "<test>", "eval"), namespace))}
    if kind == "exec":
        _exec(_compile(request["source"], "<setup>", "exec"), namespace)
    else:
        _exec(_compile(source, "<solution>", "exec"), namespace)
        if entry is not None:
            namespace.setdefault("candidate", _find(namespace, entry))
    return {"value": None}


def _serve(source, entry):
    namespace = {"__name__": "solution", "__builtins__": __builtins__}
    answer = {"value": None}
    while True:
        request = _tell(answer)
        try:
            answer = _do(request, source, namespace, entry)
        except BaseException as error:
            answer = _described(error)


sys.argv = ["solution.py"]
_serve(SOURCE, ENTRY)  # noqa: F821
