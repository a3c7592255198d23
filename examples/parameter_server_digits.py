"""Four workers and a parameter server learn to read scikit-learn's handwritten digits.

The server holds a small network; each worker keeps its quarter of the images and answers with a gradient.
Weights and gradients pass from actor to actor as references; the driver fetches only the accuracy.

Prints:

    round  40: 9... % of unseen digits right
    round  80: 9... % of unseen digits right
    round 120: 9... % of unseen digits right
    round 160: 9... % of unseen digits right
    round 200: 9... % of unseen digits right
"""

import numpy as np
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits

import zray as ray
from digits_network import accuracy, gradient, new_weights

WORKERS, ROUNDS, REPORT_EVERY = 4, 200, 40


@ray.remote
class ParameterServer:
    def __init__(self, weights, learning_rate):
        self.weights, self.learning_rate = list(weights), learning_rate
        self.speed = [np.zeros_like(weight) for weight in weights]

    def update(self, *gradients):
        """One step of gradient descent with momentum; returns the new weights."""
        for i, parts in enumerate(zip(*gradients, strict=True)):
            self.speed[i] = 0.9 * self.speed[i] - self.learning_rate * sum(parts) / WORKERS
            self.weights[i] = self.weights[i] + self.speed[i]
        return self.weights


@ray.remote
class Worker:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def gradient(self, weights):
        return gradient(weights, self.images, self.labels)


digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images, labels = digits.data[order] / 16.0, digits.target[order]
with ray.init(num_cpus=2), Progress(console=Console(stderr=True)) as progress:
    workers = [Worker.remote(images[300 + i :: WORKERS], labels[300 + i :: WORKERS]) for i in range(WORKERS)]
    weights = ray.put(new_weights(seed=0))
    server = ParameterServer.remote(weights, learning_rate=0.2)
    for number in progress.track(range(1, ROUNDS + 1), description="learning digits"):
        weights = server.update.remote(*[worker.gradient.remote(weights) for worker in workers])
        if number % REPORT_EVERY == 0:
            right = accuracy(ray.get(weights), images[:300], labels[:300])
            print(f"round {number:3}: {100 * right:.1f} % of unseen digits right")
