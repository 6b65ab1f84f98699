"""Files as the package writes and keeps them: whole or not at all, never through a link, never into a device.

What is written is a draft first: a new file with a name that nobody can foretell, made exclusively in the target's
folder, which is held open meanwhile, so that neither can be exchanged. When it is whole it takes the target's name.
A new file is its owner's alone, whatever the umask; one that is replaced keeps its mode. A draft is locked for as
long as its writer lives, so that those of killed writers are known and removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from legalsat.errors import InvalidInput

try:
    import fcntl
except ImportError:  # drafts of killed writers stay, where files have no such locks
    fcntl = None  # type: ignore[assignment]

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DRAFT, _SUFFIX = ".legalsat-", ".draft"
_TRIES = 100  # names of 128 random bits, each taken already or dropped by another before it was locked
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ONE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | _NO_LINK
_BY_FOLDER = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def writable(path: str | Path) -> Path:
    """Return the path of a file that is to be written.

    Raises:
        InvalidInput: its folder does not exist, or what has the name is no regular file or may not be written.
    """
    file = as_path(path)
    try:
        known = bool(file.name) and file.parent.is_dir()
        if known:
            _replaceable(file)
    except OSError as error:
        raise refusal(error, file) from None
    if not known:
        raise InvalidInput(f"cannot write {_said(path)}; name a file in a folder that exists")
    return file


def as_path(path: str | Path) -> Path:
    """Return a path; raise `InvalidInput` where no file system knows such a name."""
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except (TypeError, ValueError):
        pass
    raise InvalidInput(f"{_said(path)!r} is no path; name a file")


def same(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file."""
    return os.path.realpath(as_path(one)) == os.path.realpath(as_path(other))


def write(path: str | Path, data: str | bytes) -> None:
    """Write a file, text as UTF-8; readers see what was there before or all of it.

    Raises:
        InvalidInput: the path names no regular file, or it cannot be written.
    """
    try:
        with replacing(path) as draft:
            draft.write(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
    except OSError as error:
        raise refusal(error, path) from None


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Yield a file to write bytes to, which takes the path's place when the block ends, and is dropped if it fails.

    Raises:
        InvalidInput: the path names no regular file, or it cannot be written.
    """
    file, inside = writable(path), False
    try:
        with _opened(file.parent) as folder:
            name, draft = _draft(folder)
            try:
                with draft:
                    inside = True
                    yield draft
                    inside = False
                    draft.flush()
                    _take_place(folder, name, draft, file)
            except BaseException:
                with suppress(OSError):
                    os.unlink(folder.entry(name), dir_fd=folder.handle)
                raise
    except OSError as error:
        if inside:  # the block's own
            raise
        raise refusal(error, file) from None


def refusal(error: Exception, file: str | Path) -> InvalidInput:
    """Return what to raise for an error of the system's, met where a file is written."""
    return InvalidInput(f"cannot write {_said(file)}: {_why(error)}; name another file")


def read(path: Path, *, own: bool = False) -> bytes | None:
    """Return what is in a regular file that is no link; None if there is none.

    Args:
        path: the file.
        own: return None also where it is another user's, or others may write it: for what is executed.

    Raises:
        InvalidInput: it is a folder, a link or a device, or it cannot be read.
    """
    try:
        # A FIFO without a writer would hold a reader up for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _ONE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error, path) from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidInput(f"{_said(path)} is a {_kind(about.st_mode)}, where a file is expected; remove it")
        if own and not is_own(about):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:
        raise _unreadable(error, path) from None
    finally:
        os.close(handle)


def is_own(about: os.stat_result) -> bool:
    """Return whether a file or folder is this user's, and nobody else may write it."""
    return not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & OTHERS_WRITE)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it, which are this user's alone; those that exist stay as they are.

    Raises:
        InvalidInput: one of them is no folder, or cannot be made.
    """
    require_folder(folder)
    try:
        for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            with suppress(FileExistsError):  # another process made it meanwhile
                one.mkdir(PRIVATE_FOLDER)
                one.chmod(PRIVATE_FOLDER)  # the umask may have taken rights of the owner's
    except OSError as error:
        raise InvalidInput(f"cannot make folder {_said(folder)}: {_why(error)}; name another one") from None


def require_folder(path: str | Path) -> Path:
    """Return a path that is a folder, or may become one.

    Raises:
        InvalidInput: it, or one above it, is no folder.
    """
    folder = as_path(path)
    there = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), None)
    if there is not None and not there.is_dir():
        raise InvalidInput(f"{_said(there)} is a {_kind(there.lstat().st_mode)}; give a folder")
    return folder


def drop_drafts(folder: Path) -> None:
    """Remove the drafts in a folder whose writers are gone; what cannot be removed stays."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [one.name for one in entries if one.name.startswith(_DRAFT) and one.name.endswith(_SUFFIX)]
        for path in (Path(folder, name) for name in names):
            with suppress(OSError), os.fdopen(os.open(path, os.O_RDWR | _ONE), "rb") as draft:
                if is_own(os.fstat(draft.fileno())) and _locked(draft.fileno()):
                    path.unlink()


class _Folder(NamedTuple):
    """A folder: its path, and what it is open as, None where the system opens none."""

    path: Path
    handle: int | None

    def entry(self, name: str) -> str:
        """Return what a file in it is called."""
        return name if self.handle is not None else str(self.path / name)


@contextmanager
def _opened(path: Path) -> Iterator[_Folder]:
    if not _BY_FOLDER:
        yield _Folder(path, None)
        return
    handle = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0))
    try:
        yield _Folder(path, handle)
    finally:
        os.close(handle)


def _draft(folder: _Folder) -> tuple[str, IO[bytes]]:
    """Return a new file in a folder, locked, and its name."""
    for _ in range(_TRIES):
        name = f"{_DRAFT}{os.urandom(16).hex()}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _ONE
        handle = os.open(folder.entry(name), flags, PRIVATE_FILE, dir_fd=folder.handle)
        if hasattr(os, "fchmod"):
            os.fchmod(handle, PRIVATE_FILE)  # the umask may have taken rights of the owner's
        if _locked(handle) is not False and os.fstat(handle).st_nlink:
            return name, os.fdopen(handle, "wb")
        os.close(handle)  # who removes drafts of killed writers came between
    raise OSError(f"no draft can be made in {folder.path}")


def _take_place(folder: _Folder, name: str, draft: IO[bytes], file: Path) -> None:
    """Give a draft its name and mode; it stays locked until then."""
    there = _replaceable(file, folder)
    if there is not None and hasattr(os, "fchmod") and there.st_uid == os.geteuid():
        os.fchmod(draft.fileno(), there.st_mode & 0o777)
    if os.name != "posix":  # which renames no open file
        draft.close()
    os.replace(folder.entry(name), folder.entry(file.name), src_dir_fd=folder.handle, dst_dir_fd=folder.handle)


def _locked(handle: int) -> bool | None:
    """Lock an open file for as long as it is open; return whether nobody else has, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _replaceable(file: Path, folder: _Folder | None = None) -> os.stat_result | None:
    """Return what is there under a name, None for nothing; refuse what is no file or may not be written."""
    folder = folder or _Folder(file.parent, None)
    try:
        there = os.stat(folder.entry(file.name), dir_fd=folder.handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(there.st_mode):
        raise InvalidInput(f"{_said(file)} is a {_kind(there.st_mode)}, which is not replaced; name a regular file")
    if not os.access(folder.entry(file.name), os.W_OK, dir_fd=folder.handle):
        raise InvalidInput(f"{_said(file)} may not be written; name another file")
    return there


def _kind(mode: int) -> str:
    return next((word for test, word in _KINDS if test(mode)), "thing of another kind")


def _unreadable(error: Exception, path: Path) -> InvalidInput:
    """Return what to raise where a file cannot be read."""
    if path.is_symlink():
        return InvalidInput(f"{_said(path)} is a link, where a file is expected; remove it")
    require_folder(path.parent)
    return InvalidInput(f"cannot read {_said(path)}: {_why(error)}; remove it")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _said(path: str | Path) -> str:
    """Return a path as messages name it: what no encoding or terminal can write is escaped."""
    text = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
