#: limits
"""Every limit of the worker, with its reason."""

FRAME_MAX = 16 << 20  # of the protocol
PART_MAX = 1 << 20  # bytes of a body in one frame: a copy of this size does not disturb other streams
PIECE_MAX = 256 << 10  # bytes of a WebSocket message in one frame: the window
OVERHEAD = 128  # what each frame of a message counts besides its bytes, so that a window bounds empty ones as well
BUFFER_LEN = 256 << 10  # receive buffer of a lane; grows to one frame and shrinks again
TEXT_MAX = 64 << 10  # bytes of a traceback or log message
NAMES_MAX = 1024  # remembered header names and status lines; applications may make them up
DESCRIPTORS_MAX = 253  # SCM_MAX_FD of Linux
HINTS_MAX = 64  # links of an early hint
FRAMES_MAX = 100  # frames of a task's stack that DUMP writes
TASKS_MAX = 50  # tasks whose stacks DUMP writes

# Complete responses to GET and HEAD wait at most HELD seconds for others of their batch: a write wakes sluice, which
# costs about as much as a small application. Once an application took longer than LONG, the next RESTLESS responses do
# not wait.
HELD = 500e-6
LONG = 5e-3
RESTLESS = 16
# Requests sent ahead are looked through for cancelled ones after a request that took this long.
LOOK_AGAIN = 1e-3
LAST_MAX = 1.0  # seconds for what a lifespan does after its last message
SHUTDOWN_MAX = 30.0  # seconds for lifespan.shutdown
DRAIN_WAIT = 5.0  # seconds between a signal and draining without the server's DRAIN
STATS_INTERVAL = 1.0
