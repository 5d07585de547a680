"""The faults that a path can ask for.

``/fault/NAME=VALUE/ARGUMENT=VALUE/photo/00017.jpg`` is photograph 17 with a fault. Only ``NAME`` is needed where an
argument has a default; values are percent-encoded. ``times=N`` with any fault spoils the first ``N`` requests for that
exact path, and lets later ones succeed. Faults may stand behind one another, the last being applied first:
``/fault/delay=0.1/fault/status=503/times=2/photo/00017.jpg`` is always late, and twice unavailable.

    ==================================== =============================================================================
    status=CODE/retry_after=TEXT         that status (204 included) and a line of text; perhaps a Retry-After header
    delay=SECONDS                        the answer comes that much later (1)
    stall                                the request is accepted and never answered
    stall_body                           half of the body, then silence
    drip=RATE                            the body at that many bytes a second (1000)
    close                                closed without an answer
    close_after                          a right answer, then the connection closes though nobody said so
    close_next                           a right answer; the next request on the connection finds it closed
    reset                                torn down (RST) without an answer
    reset_body                           half of the body, then torn down (RST)
    truncate                             half of the promised body, then closed
    no_length                            as in HTTP/1.0: no Content-Length, the end of the connection ends the body
    no_length_cut                        the same with half of the body, which looks complete
    short_length                         Content-Length is half of the body, which is sent whole
    huge_length                          Content-Length is 10 GB; the body is sent, then silence
    endless                              no Content-Length, and zeros follow the body for ever
    chunked                              chunked transfer encoding, correct
    chunked_broken                       chunked transfer encoding with a chunk size that is no number
    garbage                              a status line that is not HTTP
    giant_header=SIZE                    one header of that many bytes (1,000,000)
    header=NAME/value=TEXT               one more header, or another value for one that is sent
    robots=VALUE                         X-Robots-Tag with that value (noai)
    gzip                                 the body compressed, with Content-Encoding: gzip
    html                                 200 and the image's own content type, but the body is a web page
    empty                                200 and a body of length 0
    corrupt                              all but the first 16 bytes of the file are zeros; the length is right
    cut_image                            the first half of the file as if it were all; the length is right
    as_png                               the same picture as a PNG, under the name and content type that it had
    redirect=TO/hops=N/code=CODE         N redirects (1), the last to that path or URL (the photograph); 302
    redirect_loop                        redirected to itself
    ==================================== =============================================================================

A further fault is one function that takes the innocent :class:`Reply` and spoils it::

    @asyncload.testing.fault
    def teapot(reply: Reply, note: str = "short and stout") -> None:
        reply.set_status(418, note)
"""

from __future__ import annotations

import gzip as gzip_module
import io
import itertools

from PIL import Image, ImageOps

from asyncload.testing.registry import fault, fault_path
from asyncload.testing.reply import End, Reply

__all__: list[str] = []  # they are called by the paths that name them


@fault
def status(reply: Reply, code: int, retry_after: str = "") -> None:
    reply.set_status(code)
    if retry_after:
        reply.headers["Retry-After"] = retry_after


@fault
def delay(reply: Reply, seconds: float = 1.0) -> None:
    reply.pause += seconds


@fault
def stall(reply: Reply) -> None:
    reply.send_nothing()
    reply.end = End.STALL


@fault
def stall_body(reply: Reply) -> None:
    reply.body = _half(reply.body)
    reply.end = End.STALL


@fault
def drip(reply: Reply, rate: float = 1000.0) -> None:
    reply.rate = rate


@fault
def close(reply: Reply) -> None:
    reply.send_nothing()
    reply.end = End.CLOSE


@fault
def close_after(reply: Reply) -> None:
    reply.end = End.CLOSE


@fault
def close_next(reply: Reply) -> None:
    reply.end = End.HANG_UP


@fault
def reset(reply: Reply) -> None:
    reply.send_nothing()
    reply.end = End.RESET


@fault
def reset_body(reply: Reply) -> None:
    reply.body = _half(reply.body)
    reply.end = End.RESET


@fault
def truncate(reply: Reply) -> None:
    reply.body = _half(reply.body)
    reply.end = End.CLOSE


@fault
def no_length(reply: Reply) -> None:
    reply.status_line = reply.status_line.replace("HTTP/1.1", "HTTP/1.0")
    reply.headers.pop("Content-Length", None)
    reply.end = End.CLOSE


@fault
def no_length_cut(reply: Reply) -> None:
    no_length(reply)
    reply.body = _half(reply.body)


@fault
def short_length(reply: Reply) -> None:
    reply.headers["Content-Length"] = str(len(reply.body) // 2)


@fault
def huge_length(reply: Reply) -> None:
    reply.headers["Content-Length"] = str(10**10)
    reply.end = End.STALL


@fault
def endless(reply: Reply) -> None:
    no_length(reply)
    reply.tail = itertools.repeat(bytes(65536))


@fault
def chunked(reply: Reply) -> None:
    reply.headers.pop("Content-Length", None)
    reply.headers["Transfer-Encoding"] = "chunked"
    first, second = _half(reply.body), reply.body[len(reply.body) // 2 :]
    reply.body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (first, second, b""))


@fault
def chunked_broken(reply: Reply) -> None:
    first = _half(reply.body)
    chunked(reply)
    reply.body = b"%x\r\n%b\r\nmany\r\n" % (len(first), first)
    reply.end = End.CLOSE


@fault
def garbage(reply: Reply) -> None:
    reply.status_line = "ICY and not HTTP"
    reply.end = End.CLOSE


@fault
def giant_header(reply: Reply, size: int = 1_000_000) -> None:
    reply.headers["X-Giant"] = "x" * size


@fault
def header(reply: Reply, name: str, value: str = "") -> None:
    reply.headers = {key: text for key, text in reply.headers.items() if key.lower() != name.lower()}
    reply.headers[name] = value


@fault
def robots(reply: Reply, value: str = "noai") -> None:
    reply.headers["X-Robots-Tag"] = value


@fault
def gzip(reply: Reply) -> None:
    reply.set_body(gzip_module.compress(reply.body, mtime=0))
    reply.headers["Content-Encoding"] = "gzip"


@fault
def html(reply: Reply) -> None:
    reply.set_body(b"<!doctype html><title>Sign in</title><h1>Sign in to the hotel's network</h1>\n")


@fault
def empty(reply: Reply) -> None:
    reply.set_body(b"")


@fault
def corrupt(reply: Reply) -> None:
    reply.set_body(reply.body[:16].ljust(len(reply.body), b"\0"))


@fault
def cut_image(reply: Reply) -> None:
    reply.set_body(_half(reply.body))


@fault
def as_png(reply: Reply) -> None:
    file = io.BytesIO()
    ImageOps.exif_transpose(Image.open(io.BytesIO(reply.body))).save(file, "PNG", compress_level=1)
    reply.set_body(file.getvalue())


@fault
def redirect(reply: Reply, to: str = "", hops: int = 1, code: int = 302) -> None:
    if hops > 1:
        location = fault_path(reply.rest, "redirect", to or None, hops=hops - 1, code=code)
    else:
        location = to or reply.rest
    reply.set_status(code)
    reply.headers["Location"] = location


@fault
def redirect_loop(reply: Reply) -> None:
    reply.set_status(302)
    reply.headers["Location"] = reply.path


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]
