#!/usr/bin/env python3
"""Serves 418 over TLS to whoever shows a certificate that `ca.pem` has signed, and refuses all others.

    python asks_for_a_certificate.py FOLDER PORT
"""

import http.server
import pathlib
import ssl
import sys

folder, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])


class Teapot(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(418)
        self.send_header("content-length", "0")
        self.end_headers()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "server.pem", folder / "server.key")
context.load_verify_locations(folder / "ca.pem")
context.verify_mode = ssl.CERT_REQUIRED


class Server(http.server.ThreadingHTTPServer):
    def get_request(self):
        stream, address = super().get_request()
        return context.wrap_socket(stream, server_side=True), address


Server(("127.0.0.1", port), Teapot).serve_forever()
