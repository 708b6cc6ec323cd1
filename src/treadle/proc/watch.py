"""Follow a running command: its limits, its output, the wish to stop it, its end."""

import time
from collections.abc import Callable

from treadle.proc import program
from treadle.proc.channel import Channel, Files
from treadle.proc.command import Cause, Command, Ended, Limits
from treadle.proc.limits import Disk, Load, exceeded

# Every moment makes it worse.
_AT_ONCE = ("output_limit", "disk_limit", "memory_limit", "process_limit")

ShouldStop = Callable[[], str | None]
OnTick = Callable[[float], None]

_FIRST_TICK, _LAST_TICK, _SHORTEST = 0.02, 0.25, 0.002
_SIGNALLED, _SIGNALS = 128, 64
_OBEY = 12.0  # seconds a shim has to obey; it may itself wait ten for what cannot be killed
_LOST = Cause("lost", "the process that watched it was killed from outside")
_CLEANED_UP = ["lost"]  # the keeper's word that nothing of a killed shim's is left
_ABANDONED = Cause("stopped", "treadle itself was interrupted")


def breach(limits: Limits, elapsed: float, quiet: float, written: int) -> Cause | None:
    """Return which limit is exceeded, if any."""
    if limits.output_bytes is not None and written > limits.output_bytes:
        return Cause("output_limit", f"wrote more than {limits.output_bytes} bytes")
    if limits.wall is not None and elapsed >= limits.wall:
        return Cause("timeout", f"ran longer than {limits.wall:g} s")
    if limits.idle is not None and quiet >= limits.idle:
        return Cause("idle_timeout", f"wrote nothing for {limits.idle:g} s")
    return None


class Watch:
    """One command being followed."""

    def __init__(self, channel: Channel, files: Files, command: Command, path: str) -> None:
        self._channel, self._files, self._command, self._path = channel, files, command, path
        self._limits = command.limits
        self._begun = self._grown_at = self._seen_at = time.monotonic()
        self._tick = _FIRST_TICK
        self._written = 0
        self._rate = 0.0
        self._cause: Cause | None = None
        self._orders: list[tuple[float, Callable[[], None]]] = []
        self._given_up = False
        self._disk = Disk(self._limits)
        self._load = Load(command, channel.shim, self._begun)

    def follow(self, should_stop: ShouldStop | None, on_tick: OnTick | None) -> Ended:
        """Wait until everything is dead and say how it ended."""
        words = None
        try:
            words = self._wait(should_stop, on_tick)
        finally:
            # A callback or a signal may raise: what runs must die all the same.
            if words is None:
                self._stop(_ABANDONED, 0)
                self._wait(None, None)
        return self._ended(words)

    def _wait(self, should_stop: ShouldStop | None, on_tick: OnTick | None) -> list[str]:
        while (words := self._channel.receive(self._pause())) is None:
            self._give_due_order()
            if self._given_up:
                return []
            self._look(should_stop)
            if on_tick:
                on_tick(time.monotonic() - self._begun)
        return words

    def _pause(self) -> float:
        """Return how long nothing can happen that needs a look."""
        now, limits = time.monotonic(), self._limits
        moments = [now + self._tick, *(moment for moment, _ in self._orders)]
        if self._cause is None:
            if limits.wall is not None:
                moments.append(self._begun + limits.wall)
            if limits.idle is not None:
                moments.append(self._grown_at + limits.idle)
            if limits.output_bytes is not None and self._rate > 0:
                moments.append(now + (limits.output_bytes - self._written) / self._rate / 2)
        return max(min(moments) - now, _SHORTEST)

    def _look(self, should_stop: ShouldStop | None) -> None:
        now, written = time.monotonic(), sum(self._files.sizes())
        self._rate = (written - self._written) / max(now - self._seen_at, _SHORTEST)
        if written != self._written:
            self._grown_at = now
        self._seen_at, self._written = now, written
        self._tick = min(self._tick * 1.5, _LAST_TICK)
        if self._cause is None:
            quiet = now - self._grown_at
            cause = breach(self._limits, now - self._begun, quiet, written)
            cause = cause or self._disk.breach(now) or self._load.breach(now) or _wish(should_stop)
            if cause:
                grace = 0 if cause.reason in _AT_ONCE else self._limits.grace
                self._stop(cause, grace)

    def _stop(self, cause: Cause, grace: float) -> None:
        """Ask politely, then kill, then kill the shim, then give up."""
        self._cause = self._cause or cause
        now = time.monotonic()
        orders = [self._channel.kill, self._channel.kill_shim, self._give_up]
        self._orders = [(now + grace + _OBEY * step, order) for step, order in enumerate(orders)]
        if grace > 0:
            self._channel.terminate()
        else:
            self._give_due_order()

    def _give_due_order(self) -> None:
        if self._orders and time.monotonic() >= self._orders[0][0]:
            self._orders.pop(0)[1]()

    def _give_up(self) -> None:
        self._given_up = True

    def _ended(self, words: list[str]) -> Ended:
        if words[:1] == ["failed"]:
            self._channel.is_reusable = self._cause is None
            path, folder = self._path, self._command.cwd
            return self._record(program.explain(path, folder, words[1], int(words[2])))
        if words[:1] != ["ended"]:
            ended = self._record(self._cause or _LOST)
            return ended._replace(vouched=words == _CLEANED_UP)
        code, number, stragglers, left = map(int, words[1:5])
        jail = self._command.jail
        if jail and jail.wrapper and _SIGNALLED < code <= _SIGNALLED + _SIGNALS:
            number = code - _SIGNALLED  # how a wrapper tells of it
        # An order that crossed with this message would hit the shim's next command.
        self._channel.is_reusable = self._cause is None and not left
        cause = self._cause or exceeded(self._limits, words[5])
        ended = self._record(cause or _own_end(number, stragglers, left))
        return ended._replace(
            exit_code=None if number else code,
            signal=number or None,
            stragglers=stragglers,
            vouched=not left,
        )

    def _record(self, cause: Cause) -> Ended:
        written, cap = sum(self._files.sizes()), self._limits.output_bytes
        if cap is not None and written > cap:
            cause = breach(self._limits, 0, 0, written) or cause
            self._files.cut(cap)
            written = cap
        seconds = time.monotonic() - self._begun
        return Ended(cause.reason, None, None, seconds, 0, cause.detail, written)


def _wish(should_stop: ShouldStop | None) -> Cause | None:
    text = should_stop() if should_stop else None
    return None if text is None else Cause("stopped", text)


def _own_end(number: int, stragglers: int, left: int) -> Cause:
    if left:
        return Cause("lost", f"processes it started that cannot be killed: {left}")
    detail = f"processes it left running, now killed: {stragglers}" if stragglers else ""
    return Cause("signal" if number else "exit", detail)
