"""Runs test code that is trusted, in a sandbox without the candidate: its functions are called through the host.

`SETUP`, `TEST`, `ENTRY`, `NAMES` and `plain` are put in front by the host. Ends with one message, passed or not.
"""

import builtins
import json

import plaudit_host


class Unsupported(BaseException):
    """A value that cannot cross over as plain data, so that the test can say nothing of the candidate."""


def _ask(message):
    return json.loads(plaudit_host.call(json.dumps(message).encode()))


def _has_opaque(value):
    if isinstance(value, dict):
        return "o" in value or any(_has_opaque(one) for one in value.values())
    return isinstance(value, list) and any(_has_opaque(one) for one in value)


def _proxy(name):
    def proxy(*args, **kwargs):
        sent = plain.encode(list(args)), plain.encode(kwargs)  # noqa: F821
        if any(_has_opaque(one) for one in sent):
            raise Unsupported(f"an argument of {name} is no plain data")
        answer = _ask({"do": "call", "name": name, "args": sent[0], "kwargs": sent[1]})
        if "error" in answer:
            kind = getattr(builtins, answer["error"], None)
            known = isinstance(kind, type) and issubclass(kind, Exception)
            raise (kind if known else RuntimeError)(answer["message"])
        for given, after in zip(args, plain.decode(answer["args"])):  # noqa: F821, B905
            if type(given) is list and type(after) is list:
                given[:] = after
        return plain.decode(answer["value"])  # noqa: F821

    return proxy


def _main():
    namespace = {"__name__": "tests", **{name: _proxy(name) for name in NAMES}}  # noqa: F821
    if ENTRY:  # noqa: F821
        namespace["candidate"] = _proxy(ENTRY)  # noqa: F821
    try:
        exec(compile(SETUP, "<setup>", "exec"), namespace)  # noqa: F821
        exec(compile(TEST, "<test>", "exec"), namespace)  # noqa: F821
        if "check" in namespace and ENTRY:  # noqa: F821
            namespace["check"](namespace["candidate"])
        return {"do": "passed"}
    except Unsupported as error:
        return {"do": "unsupported", "message": str(error)}
    except BaseException as error:
        return {"do": "failed", "message": f"{type(error).__name__}: {error}"[:300]}


_ask(_main())
