"""Hold what opens the page: only in memory, where no file can give it away."""

import hmac
import secrets
from threading import Lock

_MAX_LINKS = 16


class Keys:
    """The cookie's value, and the one-time keys of links that were not followed yet."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)
        self._links: list[str] = []
        self._lock = Lock()

    def new_link(self) -> str:
        """Make a key that opens the page once; the oldest unused ones lapse."""
        key = secrets.token_urlsafe(24)
        with self._lock:
            self._links = [*self._links[1 - _MAX_LINKS :], key]
        return key

    def redeem(self, key: str) -> str | None:
        """Take a link's key and return the cookie's value, or None if the key is no good."""
        with self._lock:
            found = [item for item in self._links if _same(item, key)]
            self._links = [item for item in self._links if item not in found]
        return self._token if found else None

    def opens(self, token: str) -> bool:
        """Tell whether a cookie is ours."""
        return _same(self._token, token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
