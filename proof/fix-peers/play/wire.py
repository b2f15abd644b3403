"""A connection that can be cut, and that loses single messages."""

import socket
import threading


class Wire:
    """Takes connections on a port of its own and carries them to another one."""

    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.open = []
        # Each is called with (is it from who connected, message); the first that says yes loses it, once.
        self.to_lose = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open.append((near, far))
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source, sink, is_near):
        held = b""
        try:
            while piece := source.recv(65536):
                whole, held = messages_of(held + piece)
                kept = [one for one in whole if not self._loses(is_near, one)]
                if kept:
                    sink.sendall(b"".join(kept))
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _loses(self, is_near, message):
        with self.lock:
            for at, wanted in enumerate(self.to_lose):
                if wanted(is_near, message):
                    del self.to_lose[at]
                    return True
        return False

    def lose(self, wanted):
        with self.lock:
            self.to_lose.append(wanted)

    def cut(self):
        """Ends every connection at once, whatever is on its way."""
        with self.lock:
            pairs, self.open = self.open, []
        for one in (end for pair in pairs for end in pair):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def close(self):
        self.listener.close()
        self.cut()


def messages_of(stream):
    """The whole messages at the start of a stream, and the rest."""
    whole = []
    while (at := stream.find(b"\x0110=")) >= 0 and len(stream) >= at + 8:
        whole.append(stream[: at + 8])
        stream = stream[at + 8 :]
    return whole, stream
