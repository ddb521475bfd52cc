"""The receiver of webhooks: writes down what it was sent and what it answered, one JSON line each, and answers badly."""

import http.server
import json
import socket
import threading
import time


class Receiver:
    """On a port of its own. `path` holds what came, `secret` is what its sender signs with."""

    def __init__(self, folder, port, chance):
        self.path, self.secret = f"{folder}/hooks.ndjson", f"{chance.getrandbits(128):032x}"
        self.secret_file = f"{folder}/webhook.secret"
        self.url = f"http://127.0.0.1:{port}/hooks"
        self.chance, self.is_calm, self.lock = chance, False, threading.Lock()
        self.log = open(self.path, "a", buffering=1, encoding="utf-8")
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.take(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        # Senders are killed; their broken connections are no news.
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request):
        at = round(time.time() * 1000)
        try:
            body = request.rfile.read(int(request.headers.get("Content-Length", "0"))).decode()
        except OSError:
            return
        answer, wait = self.verdict()
        time.sleep(wait)
        # Before the answer: what its sender does next comes after it.
        line = json.dumps({
            "at": at, "ended": round(time.time() * 1000), "answer": answer, "body": body,
            "id": request.headers.get("Repricer-Event-Id"), "type": request.headers.get("Repricer-Event-Type"),
            "signature": request.headers.get("Repricer-Signature")})
        with self.lock:
            if not self.log.closed:
                self.log.write(line + "\n")
        try:
            if answer is None:
                request.close_connection = True
                request.connection.shutdown(socket.SHUT_RDWR)
                return
            request.send_response(answer)
            request.send_header("Content-Length", "0")
            request.end_headers()
        except OSError:
            request.close_connection = True

    def verdict(self):
        """(status, or None for a lost answer; seconds before it)."""
        if self.is_calm:
            return 200, 0
        with self.lock:
            draw, wait = self.chance.random(), self.chance.uniform(0.5, 3)
        for share, answer, seconds in [
                (0.08, 500, 0), (0.03, 302, 0), (0.10, None, 0), (0.08, 200, wait), (0.01, 200, 11)]:
            draw -= share
            if draw < 0:
                return answer, seconds
        return 204, 0

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            self.log.close()
