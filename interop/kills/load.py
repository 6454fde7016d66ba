"""Several clients at once on one server, which is killed between: what a load stands on and what is left of it.

A load has questions, each asked by an official client of its own, and lives: processes of the
server one after another, each with its fault. A life ends with SIGKILL when so much has happened,
never after some time, and the last one lasts until all questions are answered.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import left
from drive import TURN_HEADER, Driven, Ended
from engines import Engine
from kills import CLASSES, FIRST_TEXT
from ledger import ANSWER_AFTER_S, Ledger
from server import POLL_S, Server

RETRIES = 6
"""More than the client's default: one kill may cost several tries, and a load has several kills."""
AT_ONCE = 4
# Nothing takes so long; it only ends what would hang.
LIFE_ENDS_WITHIN_S = 60.0
CLIENTS_END_WITHIN_S = 60.0
FINAL_WITHIN_S = 30.0


@dataclass(frozen=True)
class Question:
    n: int
    effect: str
    stream: bool
    """Whether the model says something before its call."""
    talks: bool = False

    @property
    def text(self) -> str:
        return f"Question {self.n:03}."

    @property
    def answer(self) -> str:
        last = f"{self.text} It is done."
        return f"{FIRST_TEXT}\n\n{last}" if self.talks else last

    @property
    def form(self) -> str:
        return f"{self.text} ({self.effect}, {'stream' if self.stream else 'plain'})"


def mixed_questions(count: int, first: int = 0) -> list[Question]:
    """Each class and each form by turns, beginning with another of them for another `first`."""
    made = []
    for n in range(1, count + 1):
        at = n - 1 + first
        effect = CLASSES[at // 2 % len(CLASSES)]
        made.append(Question(n, effect, at % 2 == 0, at // (2 * len(CLASSES)) % 2 == 0))
    return made


def script(questions: Iterable[Question]) -> str:
    """The arguments say which question a call is of."""
    rules = ""
    for question in questions:
        rules += f"""
[[rule]]
when = {{ last_role = "user", last_contains = "{question.text}" }}
{f'text = "{FIRST_TEXT}"' if question.talks else ""}
calls = [{{ name = "{question.effect}_probe", arguments = {{ n = {question.n} }} }}]
delta_ms = 4
"""
    return f"""{rules}
[[rule]]
when = {{ last_role = "tool" }}
text = "{{{{last_user}}}} It is done."
delta_ms = 4
"""


def server_config(folder: Path, url: str) -> str:
    probes = "".join(
        f'\n[[probe]]\nname = "{effect}_probe"\neffect = "{effect}"\nurl = "{url}/{effect}_probe"\n'
        for effect in CLASSES
    )
    # One turn may meet every fault of a load while its model is asked.
    return f"""
[limits]
model_attempts_max = 9

[record]
flush_interval_ms = 1

[[upstream]]
name = "scripted"
kind = "scripted"
script = "{folder / "script.toml"}"
{probes}"""


class Ground:
    """What all loads share."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.root = engine.root
        self.ledger = Ledger()
        self.template = engine.template("template-load", "--tools", "all", "--scope", "chat,turns:read,admin")
        self.key = self.template.key


class Life:
    """A process of the server. It is killed once `is_over`; the last one has none."""

    def __init__(self, is_over: Callable[[], bool] = lambda: False) -> None:
        self.is_over = is_over

    def start(self, server: Server) -> None:
        server.start()

    def look(self, server: Server, key: str) -> list[str]:
        """What is wrong with it, before it is killed."""
        return []

    def died(self, server: Server) -> list[str]:
        """What is wrong with it when it has ended by itself."""
        return [f"the server ended by itself: {server.log.read_text(errors='replace')[-500:]}"]


class Load:
    """One server and those who ask it. `run` of each kind says what happens, and what is expected."""

    retries = RETRIES

    def __init__(
        self, ground: Ground, name: str, questions: list[Question], tool_takes_s: float = ANSWER_AFTER_S
    ) -> None:
        self.ground = ground
        self.name = name
        self.questions = questions
        self.folder = ground.root / name
        self.folder.mkdir()
        record = ground.template.copy(self.folder)
        (self.folder / "script.toml").write_text(script(questions))
        config = server_config(self.folder, f"{ground.ledger.url}/{name}")
        self.server = Server(self.folder, config, record=record)
        self.case = ground.ledger.open(name, tool_takes_s)
        self.kills = 0
        self.serving = threading.Event()
        self.ended: dict[Question, Ended] = {}
        self.statuses: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._turns: list[str] = []
        self._ended = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        raise NotImplementedError

    def ended_so_far(self) -> int:
        """Clients that have ended."""
        return self._ended

    def effects(self) -> int:
        return len(self.ground.ledger.effects(self.case))

    def has_ended(self, more: int) -> Callable[[], bool]:
        """Whether so many clients have ended since the first time this was asked."""
        before: list[int] = []

        def has() -> bool:
            now = self._ended
            before[:] = before or [now]
            return now >= before[0] + more

        return has

    def ask(self, question: Question) -> Ended:
        """With openai-python."""
        driven = Driven(self.server.url, self.ground.key, retries=self.retries)
        try:
            return driven.ask(question.text, stream=question.stream)
        finally:
            self.seen(driven.turns)
            driven.close()

    def seen(self, turns: list[str]) -> None:
        with self._lock:
            self._turns += turns

    def go_through(
        self,
        lives: list[Life],
        ask: Callable[[Question], Ended],
        *,
        at_once: int = AT_ONCE,
        ends_within_s: float = CLIENTS_END_WITHIN_S,
    ) -> None:
        """Asks all questions, and lets the server live its lives meanwhile."""
        lives[0].start(self.server)
        self.serving.set()

        def asks(question: Question) -> Ended:
            try:
                return ask(question)
            finally:
                with self._lock:
                    self._ended += 1

        with ThreadPoolExecutor(at_once) as clients:
            asked = {clients.submit(asks, question): question for question in self.questions}
            try:
                for life, following in itertools.pairwise(lives):
                    self._live(life)
                    following.start(self.server)
                    self.serving.set()
                _, hanging = wait(asked, ends_within_s)
                self.wrong += [f"{asked[client].form}: the client never ended" for client in hanging]
                self._check_left(lives[-1])
            finally:
                # Else clients of a server that hangs would be waited for.
                self.server.kill()
                self.serving.set()
                for client in asked:
                    client.cancel()
        self.ended = {question: client.result() for client, question in asked.items()}
        self._check_answers()

    def _live(self, life: Life) -> None:
        """Until the life is over, and the server dead."""
        until = time.monotonic() + LIFE_ENDS_WITHIN_S
        while self.server.is_running() and not life.is_over():
            if self._ended == len(self.questions):
                self.wrong.append("everything was answered before the server was to be killed")
                break
            if time.monotonic() > until:
                running = self.server.rows("SELECT count(*) FROM turn WHERE status = 'running'")[0][0]
                raise RuntimeError(f"{running} turns run, and nothing ends any more, {self._ended} clients have")
            time.sleep(POLL_S)
        if self.server.is_running():
            self.wrong += life.look(self.server, self.ground.key)
        else:
            self.wrong += life.died(self.server)
        self.serving.clear()
        self.server.kill()
        self.kills += 1

    def _check_left(self, last: Life) -> None:
        """Ends the server, since its file is looked at, too."""
        since = time.monotonic()
        self.wrong += left.finals(self.server, self.ground.key, lambda: list(self._turns), since, FINAL_WITHIN_S)
        self.wrong += last.look(self.server, self.ground.key)
        for status, reason in self.server.rows("SELECT status, reason FROM turn"):
            self.statuses[f"{status}({reason})" if reason else status] += 1
        plain = "SELECT id FROM turn WHERE status = 'incomplete' AND reason = 'interrupted' AND streamed = 0"
        self.wrong += [f"turn {turn} is plain and was interrupted" for (turn,) in self.server.rows(plain)]
        self.wrong += left.open_rows(self.server)
        self.server.kill()
        self.wrong += self.server.record.wrong()
        self.wrong += left.effects(self.server, self.ground.ledger.effects(self.case))

    def _check_answers(self) -> None:
        """Whoever got an answer got the one to its own question, of a turn that is recorded as completed."""
        completed = {turn for (turn,) in self.server.rows("SELECT id FROM turn WHERE status = 'completed'")}
        for question, ended in self.ended.items():
            if ended.outcome != "answer":
                continue
            if ended.text != question.answer:
                self.wrong.append(f"{question.form}: the answer reads {ended.text!r}")
            turn = ended.headers.get(TURN_HEADER)
            if turn is not None and turn not in completed:
                self.wrong.append(f"{question.form}: turn {turn} was answered and is not completed")

    def expect(self, question: Question, allowed: set[str]) -> None:
        ended = self.ended[question]
        if ended.outcome not in allowed:
            self.wrong.append(f"{question.form}: the client ended with {ended.outcome}: {ended.note}")

    def expect_of_kills(self) -> None:
        """A plain request is answered. A stream that was begun to be shown cannot be continued, nor its turn then."""
        for question in self.questions:
            allowed = {"answer"}
            if question.stream:
                allowed |= {"cut", "error event"}
                if question.effect != "read":
                    allowed.add("424")
            self.expect(question, allowed)
        self.expect_turns({"completed", "incomplete(interrupted)"})

    def expect_turns(self, allowed: set[str]) -> None:
        others = set(self.statuses) - allowed
        if others:
            self.wrong.append(f"turns ended {', '.join(sorted(others))}")

    def run_and_close(self) -> None:
        """What went wrong is printed, and then everything is kept."""
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - the others still run
            self.wrong.append(f"harness: {error!r}")
        if not self.wrong:
            self.server.forget()
            return
        self.server.kill()
        print(f"FAILED {self.name}, kept in {self.folder}", flush=True)
        for line in self.wrong:
            print(f"  {line}", flush=True)
