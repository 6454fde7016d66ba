"""Every recorded answer, and one with each oddity of a list, read through the server by the official clients of three surfaces."""

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import quirks
from clients import CHAT, MESSAGES, PYTHON_CLIENTS, SURFACES, NodeClient, PythonClient
from projected import Projected, request_on
from recordings import CHAT as CHAT_KIND
from recordings import ERROR, load
from recordings import MESSAGES as MESSAGES_KIND
from recordings import RESPONSES as RESPONSES_KIND
from server import Server
from upstream import Reply, Upstream

CLASSES = ("right", "length", "error")
NO_CLASS = "no class"
KINDS = {
    CHAT_KIND: "chat",
    RESPONSES_KIND: "responses",
    MESSAGES_KIND: "messages",
    ERROR: "error",
}
# What the server makes of an upstream's refusal: these keep status and message, and a refusal of
# the server's own credentials is not the client's to know.
KEPT_STATUSES = (400, 404, 413, 422)
CREDENTIALS_REFUSED = (401, 403)
BAD_GATEWAY = 502
# What openai-python's helper for chat completions raises of ends that it knows; of the first with what it has read.
RAISED = {"length": "LengthFinishReasonError", "content_filter": "ContentFilterFinishReasonError"}
# Failed requests are tried again by the clients after half a second or more, so they overlap.
AT_ONCE = 8
FAILURE_CHARS_SHOWN = 2000


@dataclass(frozen=True)
class Job:
    """A recording that is to be read in one of its forms."""

    group: str
    recording: object
    form: str

    @property
    def model(self):
        """The name under which an upstream of the recording's own format is asked for it."""
        return f"{self.recording.upstream_kind}:{self.form}:{self.recording.file}"


def main():
    words = sys.argv[1:]
    recordings = [*load(tuple(KINDS)), *quirks.load()]
    by_file = {recording.file: recording for recording in recordings}

    def replies(model, _n):
        _, form, file = model.split(":", 2)
        return Reply.of(by_file[file], in_pieces=form == "pieces")

    upstream = Upstream(replies)
    jobs = [job for job in all_jobs(recordings) if all(word in job.model for word in words)]
    failures, counts, names = [], Counter(), {}
    with Server(config_of(upstream)) as server:
        for surface in SURFACES:
            clients = [NodeClient(server, surface), PYTHON_CLIENTS[surface](server)]
            for language, client in zip(("Node", "Python"), clients):
                names[language, surface] = client.name
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    verdicts = pool.map(lambda job: judge(client, surface, job), jobs)
                    for job, (reached, problem) in zip(jobs, verdicts):
                        counts[language, job.group, surface, reached] += 1
                        if problem:
                            failures.append(f"{client.name}, {surface}: {problem}")
                client.close()
    upstream.close()
    show(jobs, names, counts)
    show_direct(recordings)
    for failure in failures:
        print(f"FAILED {failure[:FAILURE_CHARS_SHOWN]}")
    sys.exit(1 if failures or not jobs else 0)


def config_of(upstream):
    """One provider in each of the formats, chosen by the model's name."""
    lines = ["[limits]", "model_backoff_ms = 1"]
    for kind in ("openai", "openai_responses", "anthropic"):
        lines += [
            "[[upstream]]",
            f'name = "{kind}"',
            f'kind = "{kind}"',
            f"base_url = {json.dumps(upstream.base_url)}",
            f'models = ["{kind}:*"]',
        ]
    return "\n".join(lines) + "\n"


def all_jobs(recordings):
    for recording in recordings:
        kind = KINDS[recording.kind]
        if recording.file.startswith("quirk "):
            yield Job(f"quirks of {kind} streams", recording, "pieces")
        elif recording.kind == ERROR:
            yield Job("error bodies", recording, "whole")
        elif recording.streamed:
            yield Job(f"{kind} streams", recording, "whole")
            yield Job(f"{kind} streams, in pieces", recording, "pieces")
        else:
            yield Job(f"{kind} bodies", recording, "whole")


def judge(client, surface, job):
    """The class that the outcome falls into, and what is wrong where that is none."""
    request = {**request_on(job.recording, surface), "model": job.model}
    outcome = client.read(request, job.recording.streamed)
    try:
        return class_of(client, surface, job.recording, outcome), None
    except (AssertionError, LookupError) as problem:
        return NO_CLASS, f"{job.recording.file} ({job.form}): {problem!r}; {outcome}"


def class_of(client, surface, recording, outcome):
    """The class that an outcome falls into.

    Raises `AssertionError` where there is none.
    """
    error = outcome["error"]
    if recording.error_message() is not None:
        assert error, "the upstream's error did not arrive"
        check_error(recording, error)
        return "error"
    wanted = Projected(recording, surface)
    by_design = RAISED.get(wanted.finish)
    if by_design and recording.streamed and isinstance(client, PythonClient):
        raised = error and error["class"]
        assert raised == by_design, f"raised {raised}"
        if not outcome["choices"]:
            return "right"
    else:
        assert error is None, "there was an error"
    check_choices(recording, wanted, outcome["choices"])
    return "length" if recording.ends_by_length else "right"


def check_error(recording, error):
    said = recording.error_message()
    if recording.kind != ERROR:
        assert said in error["message"], f"the message is not {said!r}"
    elif recording.status in CREDENTIALS_REFUSED:
        assert error["status"] == BAD_GATEWAY, "refused credentials are no bad gateway"
    else:
        assert recording.status in KEPT_STATUSES, "no rule for this status"
        assert error["status"] == recording.status, "the status was not kept"
        assert said in error["message"], f"the message is not {said!r}"


def check_choices(recording, wanted, choices):
    expected = wanted.choices
    assert len(choices) == len(expected), f"{len(choices)} choices instead of {len(expected)}"
    for choice, (text, calls) in zip(choices, expected):
        assert choice["text"] == text, f"the text is not {text!r}"
        made = [(call["name"], call["arguments"]) for call in choice["calls"]]
        assert len(made) == len(calls), f"the calls are not {calls}"
        for (name, arguments), (wanted_name, said) in zip(made, calls):
            assert name == wanted_name, f"the call is not of {wanted_name}"
            if wanted.surface == MESSAGES or is_by_value(recording):
                same = is_same_input(arguments, said, recording)
            else:
                same = recording.whole(arguments) == recording.whole(said)
            assert same, f"the arguments are not {said!r}"
        ids = [call["id"] for call in choice["calls"]]
        assert all(ids) and len(set(ids)) == len(ids), f"ids are empty or repeated: {ids}"
    first = choices[0]
    refusal = None if wanted.surface == MESSAGES else wanted.refusal
    assert first["refusal"] == refusal, "another refusal"
    function = wanted.function if wanted.surface == CHAT else None
    assert first["function"] == function, f"the function call is not {function}"
    assert first["finish"] == wanted.finish, f"the end is {first['finish']}, not {wanted.finish}"
    if wanted.thought_chars is not None:
        shown = len(first["thought"])
        assert shown == wanted.thought_chars, f"{shown} characters of {wanted.thought_chars} thought"
    if wanted.usage is not None:
        assert first["usage"] == wanted.usage, f"the usage is not {wanted.usage}"
    if wanted.kinds is not None:
        assert first["kinds"] == wanted.kinds, f"not of the kinds {wanted.kinds}"


def is_by_value(recording):
    """Whether the recording has inputs as values, of which the manifest has another spelling."""
    return recording.kind == MESSAGES_KIND and not recording.streamed


def is_same_input(written, said, recording):
    """Whether an input says the same as the arguments that the model wrote."""
    if recording.streamed and written == said:
        return True
    said = said or "{}"
    try:
        meant = json.loads(said)
    except json.JSONDecodeError:
        meant = None
    if isinstance(meant, dict):
        return json.loads(written or "{}") == meant
    # What is no object stands in one: under one name what a custom tool is given, under another what is broken.
    return json.loads(written) in ({"input": said}, {"invalid_arguments": said})


def show(jobs, names, counts):
    for (language, surface), name in names.items():
        print(f"{language} on {surface}: {name}")
    shown = [(surface, reached) for surface in SURFACES for reached in (*CLASSES, NO_CLASS)]
    print(f"\n{'':<34}" + "".join(f"{surface:<40}" for surface in SURFACES))
    print(f"{'read through the server':<34}" + "".join(f"{reached:<10}" for _, reached in shown))
    for language in ("Node", "Python"):
        for group in dict.fromkeys(job.group for job in jobs):
            row = [counts[language, group, surface, reached] for surface, reached in shown]
            print(f"{language + ', ' + group:<34}" + "".join(f"{n:<10}" for n in row))


def show_direct(recordings):
    """How the same streams fare when the clients read them themselves."""
    shown = (*CLASSES, NO_CLASS)
    print(f"\n{'chat streams read directly':<34}" + "".join(f"{name:<10}" for name in shown))
    streams = [it for it in recordings if it.fed_directly and it.kind == CHAT_KIND]
    for name in ("openai-node 7.59.0", "openai-python 3.57.0"):
        fared = Counter(class_of_direct(it, it.fed_directly[name]) for it in streams)
        print(f"{name:<34}" + "".join(f"{fared[reached]:<10}" for reached in shown))


def class_of_direct(recording, fared):
    """The class of what the manifest says about a client that read the stream itself."""
    if recording.error_message() is not None:
        return "error"
    if fared.startswith("error: LengthFinishReasonError"):
        return "length"
    if fared != "ok":
        return NO_CLASS
    return "length" if recording.ends_by_length else "right"


if __name__ == "__main__":
    main()
