"""An object store in memory on loopback, as much of one as a probe and a put of small files need, whose writes can be held up.

    with SmallStore() as store:
        store.endpoint
        store.hold("/checkpoints/")     # PUTs of keys with this in them wait
        store.held                      # how many do
        store.release()                 # they are carried out
        store.objects                   # /bucket/key -> bytes
        store.days                      # of the signatures that it saw, as in their scope: 20130524

It checks no signature."""
import http.server
import re
import threading
import urllib.parse

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
DAY = re.compile(r"Credential=[^/]+/(\d{8})/")


class SmallStore:
    def __init__(self):
        self.objects, self.days = {}, set()
        self.held, self.word = 0, None
        self.changed = threading.Condition()
        self.server = Server(("127.0.0.1", 0), type("Asked", (Asked,), {"store": self}))
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release()
        self.server.shutdown()
        self.server.server_close()

    def hold(self, word):
        with self.changed:
            self.word = word

    def release(self):
        with self.changed:
            self.word = None
            self.changed.notify_all()

    def wait_for_leave(self, key):
        with self.changed:
            self.held += 1
            self.changed.wait_for(lambda: self.word is None or self.word not in key)
            self.held -= 1


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Who asked is gone."""


class Asked(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one(self):
        seen = DAY.search(self.headers.get("Authorization", ""))
        if seen:
            self.store.days.add(seen.group(1))
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key, asked = urllib.parse.unquote(path), urllib.parse.parse_qs(query, keep_blank_values=True)
        if self.command == "PUT":
            self.store.wait_for_leave(key)
            self.store.objects[key] = body
            self.answer(200, ETag='"0"')
        elif self.command == "DELETE":
            self.store.objects.pop(key, None)
            self.answer(204)
        elif "list-type" in asked:
            self.list(key.strip("/"), asked["prefix"][0], asked.get("delimiter", [""])[0])
        elif "uploads" in asked:
            self.answer(200, f'<ListMultipartUploadsResult xmlns="{NAMESPACE}"><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>'.encode())
        elif key in self.store.objects:
            self.answer(200, self.store.objects[key], ETag='"0"')
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_GET = do_HEAD = do_PUT = do_DELETE = handle_one

    def list(self, bucket, prefix, delimiter):
        """Keys that have the delimiter behind the prefix are one folder, as in a real store."""
        rows, folders = "", set()
        for key, body in sorted(self.store.objects.items()):
            if not key.startswith(f"/{bucket}/{prefix}"):
                continue
            key = key[len(bucket) + 2:]
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest[:rest.index(delimiter) + 1])
                continue
            rows += (f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>{len(body)}</Size>"
                     "<LastModified>2100-01-01T00:00:00.000Z</LastModified></Contents>")
        rows += "".join(f"<CommonPrefixes><Prefix>{urllib.parse.quote(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders))
        self.answer(200, f'<ListBucketResult xmlns="{NAMESPACE}"><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{rows}'
                         f'</ListBucketResult>'.encode())
