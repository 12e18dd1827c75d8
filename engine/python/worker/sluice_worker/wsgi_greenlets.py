#: wsgi_greenlets
"""WSGI with a greenlet for each request."""

from .greenlets import GeventSeat, GeventStream
from .wsgi import WsgiExchange, environ_template


class GreenletExchange(GeventStream, WsgiExchange):
    """A request to a WSGI application that blocks its greenlet only."""


class WsgiGreenletSeat(GeventSeat):
    new_stream = GreenletExchange

    def __init__(self, descriptors):
        super().__init__(descriptors)
        self.template = environ_template()
        self.template["wsgi.multithread"] = True
