"""The model of E13, and a REST server for it: starlette on uvicorn.

python -m benchmarks.figures.rest_server DESCRIPTOR INPUTS BATCH_SECONDS     of a listening socket
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

import msgspec
import numpy as np


class Model:
    """One layer of a network, and a sleep for the others.

    Args:
        batch_seconds: how long a batch takes in all.
    """

    def __init__(self, inputs: int, batch_seconds: float) -> None:
        self.weights = np.random.default_rng(13).standard_normal((min(inputs, 128), 4), dtype=np.float32)
        self.batch_seconds = batch_seconds

    def predict(self, states: np.ndarray) -> np.ndarray:
        """The action for each row of states."""
        end = time.perf_counter() + self.batch_seconds
        actions = np.asarray((states[:, : len(self.weights)] @ self.weights).argmax(axis=1))
        time.sleep(max(0.0, end - time.perf_counter()))
        return actions


def serve(listener: socket.socket, model: Model) -> None:
    """Serve until the process ends.  POST /json and /msgpack take a batch of states, and answer with actions."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    one_at_a_time = threading.Lock()  # as an actor has one

    def predict(states: np.ndarray) -> list[int]:
        with one_at_a_time:
            found: list[int] = model.predict(states).tolist()
        return found

    async def of_json(request: Request) -> Response:
        states = np.asarray(json.loads(await request.body())["input"], dtype=np.float32)
        return Response(json.dumps({"output": await run_in_threadpool(predict, states)}))

    async def of_msgpack(request: Request) -> Response:
        shape, data = msgspec.msgpack.decode(await request.body())
        states = np.frombuffer(data, dtype=np.float32).reshape(shape)
        return Response(msgspec.msgpack.encode(await run_in_threadpool(predict, states)))

    routes = [Route("/json", of_json, methods=["POST"]), Route("/msgpack", of_msgpack, methods=["POST"])]
    config = uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), Model(int(sys.argv[2]), float(sys.argv[3])))
