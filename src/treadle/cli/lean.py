"""Load argparse and pathlib without what they load for functions that treadle never calls."""

import sys
from types import ModuleType

# Translations for argparse's sentences; addresses of networks for `Path.as_uri`.
_UNUSED = ("gettext", "urllib.parse")


class _Standin(ModuleType):
    """A module that is loaded when one of its functions is called after all."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *words: getattr(__import__(self.__name__, fromlist=[name]), name)(*words)


def load() -> None:
    """Load both; a third of a bare start less."""
    absent = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update({name: _Standin(name) for name in absent})
    for name in ("argparse", "pathlib"):
        __import__(name)
    for name in absent:
        del sys.modules[name]
