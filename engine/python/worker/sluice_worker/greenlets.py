#: greenlets
"""gevent: lanes, streams and the seat of applications whose requests are greenlets."""

import gevent
import gevent.event

from .blocking import BlockingStream
from .control import worker
from .frames import clock
from .loops import LoopLane, LoopSeat


class GeventLane(LoopLane):
    def __init__(self, fd, seat):
        super().__init__(fd, seat)
        loop = seat.hub.loop
        self.run_callback = loop.run_callback
        self.reader = loop.io(fd, 1)
        self.writer = loop.io(fd, 2)

    def watch(self):
        self.reader.start(self.on_readable)

    def unwatch(self):
        self.reader.stop()
        self.writer.stop()

    def watch_writable(self, on):
        if on:
            self.writer.start(self.on_writable)
        else:
            self.writer.stop()

    def schedule(self):
        self.scheduled = True
        self.mark = clock()
        self.run_callback(self.flush)

    def wait(self, stream):
        """Lets other greenlets run until a frame for the stream has arrived."""
        self.flush()
        if stream.event is None:
            stream.event = self.seat.event_type()
        stream.event.clear()
        stream.event.wait()

    def look(self, stream):
        self.seat.sleep(0)
        while self.backlog and not stream.cancelled:
            self.wait(stream)


class GeventStream(BlockingStream):
    event = None
    running = False

    def wake(self):
        if self.event is not None:
            self.event.set()

    def finish(self):
        super().finish()
        self.wake()

    def stop(self):
        if self.running:  # a greenlet that has not begun sees that it is cancelled
            self.lane.seat.active[self].kill(block=False)

    def run_greenlet(self):
        self.running = True
        try:
            self.run()
        finally:
            lane = self.lane
            lane.seat.ended(self)
            if lane.out and not lane.scheduled:
                lane.schedule()


class GeventSeat(LoopSeat):
    """gevent's hub in the main thread."""

    def __init__(self, descriptors):
        super().__init__()
        self.hub = gevent.get_hub()
        self.sleep = gevent.sleep
        self.spawn = gevent.spawn
        self.event_type = gevent.event.Event
        self.finished = gevent.event.Event()
        self.lanes = [GeventLane(fd, self) for fd in descriptors]
        self.waker = self.hub.loop.async_()
        self.waker.start(self.drain)

    def wake(self):
        self.waker.send()

    def stop(self):
        self.finished.set()

    def start(self):
        """Runs before READY."""

    def end(self):
        """Runs after the last request."""

    def begin(self, lane, number, flags, head):
        stream = self.new_stream(lane, number, flags, head)
        lane.begun = True
        self.requests += 1
        lane.streams[number] = stream
        self.active[stream] = self.spawn(stream.run_greenlet)


def serve(descriptors):
    """Runs the application in greenlets until the process drains."""
    if worker.interface == "wsgi":
        from .wsgi_greenlets import WsgiGreenletSeat as Seat
    else:
        from .esgi import EsgiSeat as Seat
    seat = Seat(descriptors)
    seat.start()
    worker.seats.append(seat)
    worker.ready("gevent")
    seat.accelerate()
    for lane in seat.lanes:
        lane.watch()
    if worker.draining:
        seat.drain()
    seat.finished.wait()
    for lane in seat.lanes:
        lane.unwatch()
        lane.finish_writing()
    seat.end()
