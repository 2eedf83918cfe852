"""A proxy in front of an object store that answers in its place, or hands on slowly: what real stores do on bad days and a fixture cannot be made to do.

    with Proxy(store.port) as proxy:
        proxy.port                        # the endpoint of those who are to be troubled
        proxy.say("503 SlowDown")         # to every request; a number of HTTP and the error's code
        proxy.say("501 NotImplemented", to=b"x-amz-copy-source:")  # to those that have this in their head
        proxy.slow(1 << 20)               # bytes per second of all connections together, in both directions
        proxy.swallow()                   # requests are handed on, their answers are not
        proxy.cut()                       # connections end without a word
    proxy.late(17, b"DELETE")         # each request of this method is handed on only after so many seconds
        proxy.hang()                      # nothing is answered until it does something else
        proxy.keep_puts()                 # each PUT is read to its end and kept, without an answer
        proxy.carry_out()                 # now they are carried out, as a store does that comes to it late
        proxy.hand_on()                   # as if it were not there
        proxy.asked                       # method, path of every request that it saw

The request's bytes are handed on as they came: the signature is over the Host header, which names the proxy."""
import re
import socket
import threading
import time

LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)\s*$")
HEAD_MAX = 1 << 16
CUT, HANG = "cut", "hang"


def read_head(connection, rest):
    """Bytes up to the empty line, and what came behind it; None at the end."""
    while b"\r\n\r\n" not in rest:
        piece = connection.recv(1 << 16)
        if not piece or len(rest) > HEAD_MAX:
            return None, b""
        rest += piece
    head, _, rest = rest.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


class Proxy:
    def __init__(self, port):
        self.to = ("127.0.0.1", port)
        self.hand_on()
        self.kept = []
        self.asked, self.said = [], 0
        self.lock, self.due = threading.Lock(), 0.0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.open = set()

    def __enter__(self):
        threading.Thread(target=self.listen, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.listener.close()
        for connection in list(self.open):
            self.end(connection)

    # ---- what it does ----

    def say(self, what, to=b""):
        self.hand_on()
        self.answer, self.answer_to = what, to

    def slow(self, bytes_per_s):
        self.hand_on()
        self.rate = bytes_per_s

    def swallow(self):
        self.hand_on()
        self.swallows = True

    def keep_puts(self):
        self.hand_on()
        self.keeps = True

    def cut(self):
        self.say(CUT)

    def late(self, seconds, method):
        self.hand_on()
        self.late_s, self.late_method = seconds, method

    def hang(self):
        self.say(HANG)

    def hand_on(self):
        self.answer, self.answer_to, self.rate, self.swallows, self.keeps = None, b"", 0, False, False
        self.late_s, self.late_method = 0, b""

    def carry_out(self):
        self.hand_on()
        kept, self.kept = self.kept, []
        for request in kept:
            with socket.create_connection(self.to) as store:
                store.sendall(request)
                answer, rest = read_head(store, b"")
                while answer is not None and answer.startswith(b"HTTP/1.1 100"):
                    answer, rest = read_head(store, rest)
                assert answer is not None and answer.startswith(b"HTTP/1.1 200"), answer
        return len(kept)

    # ---- connections ----

    def end(self, connection):
        self.open.discard(connection)
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        connection.close()

    def listen(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.open.add(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            store, rest = None, b""
            while True:
                head, rest = read_head(connection, rest)
                if head is None:
                    return
                method, path, _ = head.split(b" ", 2)
                self.asked.append((method.decode(), path.decode()))
                length = int(LENGTH.search(head)[1]) if LENGTH.search(head) else 0
                if self.answer is not None and self.answer_to in head.lower():
                    rest = self.refuse(connection, method, rest, length)
                    continue
                if method == self.late_method:
                    time.sleep(self.late_s)
                if self.keeps and method == b"PUT":
                    self.keep(connection, head, rest, length)
                    return
                if store is None:
                    store = socket.create_connection(self.to)
                    self.open.add(store)
                rest = self.hand_over(connection, store, head, rest, length, method)
                if rest is None:
                    return
        except OSError:
            pass
        finally:
            self.end(connection)
            if store is not None:
                self.end(store)

    def keep(self, connection, head, rest, length):
        """The client waits for its answer until it is gone."""
        while len(rest) < length:
            piece = connection.recv(1 << 16)
            if not piece:
                return
            rest += piece
        self.kept.append(head + rest[:length])
        while connection.recv(1 << 16):
            pass

    def refuse(self, connection, method, rest, length):
        """An error, after the whole request was read, as a store does."""
        while length > len(rest):
            piece = connection.recv(1 << 16)
            if not piece:
                raise OSError("cut")
            length, rest = length - len(rest), piece
        rest = rest[length:]
        while self.answer == HANG:
            time.sleep(0.05)
        if self.answer is None or self.answer == CUT:
            raise OSError("cut")
        status, code = self.answer.split(" ", 1)
        text = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code} by the proxy</Message></Error>"
        self.said += 1
        connection.sendall(f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(text)}\r\n\r\n".encode() +
                           (b"" if method == b"HEAD" else text.encode()))
        return rest

    def paced(self, count):
        if self.rate == 0:
            return
        with self.lock:
            self.due = max(self.due, time.monotonic()) + count / self.rate
            wait_s = self.due - time.monotonic()
        time.sleep(max(wait_s, 0))

    def hand_over(self, connection, store, head, rest, length, method):
        store.sendall(head)
        while length > 0:
            piece = rest[:length] or connection.recv(min(length, 1 << 16))
            if not piece:
                raise OSError("cut")
            rest = rest[len(piece):]
            length -= len(piece)
            self.paced(len(piece))
            store.sendall(piece)
        answer, behind = read_head(store, b"")
        while answer is not None and answer.startswith(b"HTTP/1.1 100"):
            answer, behind = read_head(store, behind)
        if answer is None:
            return None
        if self.swallows:
            return None
        connection.sendall(answer)
        if method == b"HEAD" or answer.startswith(b"HTTP/1.1 204"):
            return rest
        found = LENGTH.search(answer)
        if found is None and b"chunked" in answer.lower():
            return self.hand_chunks(connection, store, behind, rest)
        left = int(found[1]) if found else 0
        while left > 0:
            piece = behind[:left] or store.recv(min(left, 1 << 16))
            if not piece:
                return None
            behind = behind[len(piece):]
            left -= len(piece)
            self.paced(len(piece))
            connection.sendall(piece)
        return rest

    @staticmethod
    def hand_chunks(connection, store, behind, rest):
        """Up to the empty chunk."""
        while True:
            while b"\r\n" not in behind:
                behind += store.recv(1 << 16)
            line, _, behind = behind.partition(b"\r\n")
            size = int(line.split(b";")[0], 16) + 2
            while len(behind) < size:
                behind += store.recv(1 << 16)
            connection.sendall(line + b"\r\n" + behind[:size])
            behind = behind[size:]
            if size == 2:
                return rest
