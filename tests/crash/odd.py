"""Write in every way that the replay of a trace must understand."""

import os
import socket

FLAGS = os.O_CREAT | os.O_RDWR


def main() -> None:
    """Work in the current folder."""
    _bytes()
    _names()
    _children()


def _bytes() -> None:
    file = os.open("bytes", FLAGS)
    os.write(file, b"one ")
    os.writev(file, [b"two ", b"three "])
    os.pwrite(file, b"ONE", 0)
    os.pwritev(file, [b"T", b"W"], 4)
    copy = os.dup(file)
    os.write(copy, b"four ")
    old = os.open("old", os.O_RDWR)
    os.sendfile(copy, old, 3, 20)
    os.copy_file_range(old, file, 30)
    os.ftruncate(old, 100)
    os.lseek(old, 50, os.SEEK_SET)
    os.write(old, b"middle")
    os.posix_fallocate(old, 0, 300)
    more = os.open("bytes", os.O_WRONLY | os.O_APPEND)
    os.write(more, b"end")
    os.fsync(more)
    os.truncate("bytes", 60)
    os.close(os.open("old", os.O_WRONLY | os.O_TRUNC))


def _names() -> None:
    os.mkdir("a/deep")
    os.chdir("a/deep")
    os.close(os.open("here", FLAGS))
    os.chdir("../..")
    folder = os.open("b", os.O_RDONLY)
    os.rename("a/deep/here", "there", dst_dir_fd=folder)
    os.mkdir("made", dir_fd=folder)
    os.link("b/there", "b/second")
    os.symlink("second", "link", dir_fd=folder)
    os.unlink("there", dir_fd=folder)
    os.rename("a/deep", "b/moved")
    os.rmdir("b/moved")
    through = os.open("way/through", FLAGS)
    os.write(through, b"behind a link")
    os.rename("way/through", "b/second")
    os.write(through, b", still the same file")
    os.fsync(folder)


def _children() -> None:
    log = os.open("log", FLAGS)
    os.write(log, b"parent\n")
    actions = [(os.POSIX_SPAWN_DUP2, log, 1)]
    script = "echo child; (echo grandchild); cd b; echo below > made/below; cat ../old >> below"
    child = os.posix_spawn("/bin/sh", ["sh", "-c", script], {}, file_actions=actions)
    os.waitpid(child, 0)
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.write(socket.recv_fds(theirs, 1, 1)[1][0], b"by socket\n")
        os._exit(0)
    socket.send_fds(ours, [b"x"], [log])
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
