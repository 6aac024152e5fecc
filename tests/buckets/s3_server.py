"""moto's S3 server on a loopback port, and a proxy in front of it that fails as a test asks."""
import collections
import http.client
import http.server
import socket
import socketserver
import subprocess
import sys
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class S3:
    """The server; needs moto on PYTHONPATH (tools/bootstrap --tests)."""

    def __init__(self):
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{self.port}'])"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                self.request("PUT", "/bucket")
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("moto's server does not start")

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        # Any signature works; without one moto deletes nothing.
        signed = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        connection.request(method, path, body, {"Authorization": signed})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def keys(self, prefix=""):
        text = self.request("GET", f"/bucket?list-type=2&max-keys=1000&prefix={prefix}")[1].decode()
        return sorted(part.split("</Key>")[0] for part in text.split("<Key>")[1:])

    def uploads(self):
        """Number of unfinished multipart uploads."""
        return self.request("GET", "/bucket?uploads")[1].decode().count("<Upload>")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Proxy(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Forwards requests: every `fails`-th is answered with 500 or cut off, but none more than MOST_IN_A_ROW times in a row, fewer than
    its sender makes attempts; each waits `delay_s`; if `dead`, no request is answered."""
    MOST_IN_A_ROW = 3
    daemon_threads = True

    def __init__(self, port, fails=0, delay_s=0.0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind, self.fails, self.delay_s, self.dead = port, fails, delay_s, False
        self.requests, self.failed, self.lock = 0, 0, threading.Lock()
        self.in_a_row = collections.Counter()  # failures of a request, which has one ID in all its attempts
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return data

    def forward(self):
        server = self.server
        with server.lock:
            server.requests += 1
            number = server.requests
        body = self.body()
        time.sleep(server.delay_s)
        if server.dead:
            self.close_connection = True
            return
        request = self.headers.get("amz-sdk-invocation-id", "")
        with server.lock:
            fails = server.fails and number % server.fails == 0 and server.in_a_row[request] < server.MOST_IN_A_ROW
            server.in_a_row[request] += 1 if fails else 0
        if fails:
            with server.lock:
                server.failed += 1
            if number % 2 == 0:
                self.close_connection = True  # cut off, without an answer
                return
            self.send_response(500)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection("127.0.0.1", server.behind, timeout=30)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in ("transfer-encoding", "content-length", "expect")}
        connection.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))})
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(key, value)
        # For a HEAD, the length of the answer to a GET.
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward
