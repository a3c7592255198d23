"""The network of parameter_server_digits.py: 64 pixels, 32 hidden units, 10 digits; plain numpy."""

import numpy as np


def new_weights(seed):
    """[hidden weights (64, 32), hidden bias (32,), output weights (32, 10), output bias (10,)]."""
    random = np.random.default_rng(seed)
    return [random.normal(scale=0.1, size=size) for size in ((64, 32), (32,), (32, 10), (10,))]


def forward(weights, images):
    """Hidden activations (n, 32) and the probability of each digit (n, 10)."""
    hidden = np.tanh(images @ weights[0] + weights[1])
    scores = hidden @ weights[2] + weights[3]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, powers / powers.sum(axis=1, keepdims=True)


def gradient(weights, images, labels):
    """The gradient of the mean cross entropy, an array for each of the weights."""
    hidden, probabilities = forward(weights, images)
    error = probabilities.copy()
    error[np.arange(len(labels)), labels] -= 1.0
    error /= len(labels)
    hidden_error = (error @ weights[2].T) * (1.0 - hidden**2)
    return [images.T @ hidden_error, hidden_error.sum(axis=0), hidden.T @ error, error.sum(axis=0)]


def accuracy(weights, images, labels):
    """The share of images whose most likely digit is the right one."""
    return float(np.mean(forward(weights, images)[1].argmax(axis=1) == labels))
