"""nginx on loopback, serving a folder, with or without a delay before every answer."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

__all__ = ["pairs_of", "serve"]

ECHO_MODULE = Path("/usr/lib/nginx/modules/ngx_http_echo_module.so")  # Debian: libnginx-mod-http-echo

# Ours, also for root, so that it may read what we may. Only root may say so; from others nginx takes it as a hint.
USER = f"{pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name}"

CONFIGURATION = """
load_module {module};
user {user};
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log {work}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {folder};
        location ~ ^/late/ {{ echo_sleep {delay}; echo_exec @file; }}
        location @file {{ rewrite ^/late(/.*)$ $1 break; }}
    }}
}}
"""


@contextmanager
def serve(folder: Path, delay: float) -> Iterator[str]:
    """Serve ``folder``; yields the URL of its root. Every answer comes ``delay`` seconds late."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(nginx).exists() or not ECHO_MODULE.exists():
        raise SystemExit("benchmarks: needs nginx and its echo module (Debian: nginx-light libnginx-mod-http-echo)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as work:
        configuration = Path(work, "nginx.conf")
        configuration.write_text(
            CONFIGURATION.format(
                module=ECHO_MODULE, work=work, port=port, folder=folder.resolve(), delay=delay, user=USER
            )
        )
        process = subprocess.Popen([nginx, "-c", str(configuration)])
        try:
            _wait_until_it_listens(process, port)
            yield f"http://127.0.0.1:{port}{'/late' if delay else ''}"
        finally:
            process.terminate()
            process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            continue
    raise SystemExit("benchmarks: nginx did not start")


def pairs_of(folder: Path, root: str) -> list[tuple[str, int]]:
    """``(url, number)`` of every JPEG below ``folder``, as served at ``root``."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [(f"{root}/{quote(str(path.relative_to(folder)))}", number) for number, path in enumerate(files)]
