"""Serves the console, a web page of the waiting messages, their due times, and their obstacles.

`app(client)` is an ASGI application over the public client. `ConsoleServer` serves it on 127.0.0.1, behind a token. All
pages are made on the server. Each works without scripts, which only keep it up to date.

| module | holds |
|---|---|
| app | the addresses, how a page is made, and the mark by which a tab sees that it changed |
| guard | who may ask: token, Host, Origin, and the headers of each answer |
| reading | reads that may fail one by one, and their number |
| changes | the forms, the audit line of each, and the outcomes of the last ones |
| text, wheel | values as text, and the picture of the wheel |
| pages | the screens |
"""

from tidewheel.console.app import LocalService, app
from tidewheel.console.reading import RequestMeter
from tidewheel.console.serving import ConsoleServer

__all__ = ["ConsoleServer", "LocalService", "RequestMeter", "app"]
