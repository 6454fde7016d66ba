"""Every recorded chat answer, read through the server by the official clients."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from clients import NodeClient, PythonClient
from recordings import CHAT, load, request_for
from server import Server, config_with
from upstream import Reply, Upstream

CLASSES = ("right", "length", "error")
# What the server makes of an upstream's refusal: these keep status and message, and a refusal of
# the server's own credentials is not the client's to know.
KEPT_STATUSES = (400, 404, 413, 422)
CREDENTIALS_REFUSED = (401, 403)
BAD_GATEWAY = 502
# Failed requests are tried again by the clients after half a second or more, so they overlap.
AT_ONCE = 6


def main():
    recordings = load()
    by_file = {recording.file: recording for recording in recordings}

    def replies(model, _n):
        form, file = model.split(":", 1)
        return Reply.of(by_file[file], in_pieces=form == "pieces")

    upstream = Upstream(replies)
    failures, counts = [], Counter()
    with Server(config_with(upstream.base_url)) as server:
        clients = [NodeClient(server), PythonClient(server)]
        for client in clients:
            # openai-node is one process with one pipe; a second one is not worth its start.
            with ThreadPoolExecutor(AT_ONCE if isinstance(client, PythonClient) else 1) as pool:
                for verdict in pool.map(lambda job: judge(client, *job), jobs(recordings)):
                    group, reached, problem = verdict
                    counts[client.name, group, reached] += 1
                    if problem:
                        failures.append(f"{client.name}: {problem}")
            client.close()
    upstream.close()
    show(recordings, clients, counts)
    for failure in failures:
        print(f"FAILED {failure}")
    sys.exit(1 if failures else 0)


def jobs(recordings):
    for recording in recordings:
        if recording.kind != CHAT:
            yield "error bodies", recording, "whole"
        elif recording.streamed:
            yield "streams", recording, "whole"
            yield "streams, in pieces", recording, "pieces"
        else:
            yield "bodies", recording, "whole"


def judge(client, group, recording, form):
    request = {**request_for(recording), "model": f"{form}:{recording.file}"}
    outcome = client.read(request, recording.streamed)
    try:
        return group, class_of(client, recording, outcome), None
    except AssertionError as problem:
        return group, "no class", f"{recording.file} ({group}): {problem}; {outcome}"


def class_of(client, recording, outcome):
    """The class that an outcome falls into.

    Raises `AssertionError` where there is none.
    """
    error = outcome["error"]
    if recording.error_message() is not None:
        assert error, "the upstream's error did not arrive"
        check_error(recording, error)
        return "error"
    if recording.ends_by_length:
        if recording.streamed and isinstance(client, PythonClient):
            raised = error and error["class"]
            assert raised == "LengthFinishReasonError", f"raised {raised}"
        else:
            assert error is None, "there was an error"
        check_choices(recording, outcome["choices"])
        assert outcome["choices"][0]["finish"] == "length", "the finish reason is not length"
        return "length"
    assert error is None, "there was an error"
    check_choices(recording, outcome["choices"])
    finish = outcome["choices"][0]["finish"]
    if recording.calls:
        assert finish == "tool_calls", f"the finish reason is {finish} with calls"
    else:
        assert finish, "there is no finish reason"
    return "right"


def check_error(recording, error):
    said = recording.error_message()
    if recording.kind == CHAT:
        assert said in error["message"], f"the message is not {said!r}"
    elif recording.status in CREDENTIALS_REFUSED:
        assert error["status"] == BAD_GATEWAY, "refused credentials are no bad gateway"
    else:
        assert recording.status in KEPT_STATUSES, "no rule for this status"
        assert error["status"] == recording.status, "the status was not kept"
        assert said in error["message"], f"the message is not {said!r}"


def check_choices(recording, choices):
    expected = recording.choices()
    assert len(choices) == len(expected), f"{len(choices)} choices instead of {len(expected)}"
    for choice, (text, calls) in zip(choices, expected):
        assert choice["text"] == text, f"the text is not {text!r}"
        wanted = [(name, recording.whole(arguments)) for name, arguments in calls]
        made = [(call["name"], recording.whole(call["arguments"])) for call in choice["calls"]]
        assert made == wanted, f"the calls are not {wanted}"
        ids = [call["id"] for call in choice["calls"]]
        assert all(ids) and len(set(ids)) == len(ids), f"ids are empty or repeated: {ids}"
    assert choices[0]["refusal"] == recording.expect.get("refusal"), "another refusal"
    legacy = recording.expect.get("function_call")
    assert choices[0]["function"] == legacy, f"the function call is not {legacy}"


def show(recordings, clients, counts):
    shown = (*CLASSES, "no class")
    print(f"{'read through the server':<44}" + "".join(f"{name:>10}" for name in shown))
    groups = dict.fromkeys(group for group, _, _ in jobs(recordings))
    for client in clients:
        for group in groups:
            row = [counts[client.name, group, reached] for reached in shown]
            print(f"{client.name + ', ' + group:<44}" + "".join(f"{n:>10}" for n in row))
    print(f"\n{'the same streams read directly':<44}" + "".join(f"{n:>10}" for n in shown))
    streams = [it for it in recordings if it.fed_directly and it.kind == CHAT]
    for name in ("openai-node 7.59.0", "openai-python 3.57.0"):
        fared = Counter(class_of_direct(it, it.fed_directly[name]) for it in streams)
        print(f"{name + ', streams':<44}" + "".join(f"{fared[reached]:>10}" for reached in shown))


def class_of_direct(recording, fared):
    """The class of what the manifest says about a client that read the stream itself."""
    if recording.error_message() is not None:
        return "error"
    if fared.startswith("error: LengthFinishReasonError"):
        return "length"
    if fared != "ok":
        return "no class"
    return "length" if recording.ends_by_length else "right"


if __name__ == "__main__":
    main()
