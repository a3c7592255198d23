"""ASHA on handwritten digits: most of 12 small networks of torch stop early, and the best ones train on.

Prints:
    ASHA ran ... of 108 epochs; the best network reads ... % of the digits
    its learning rate lies above 0.001: True
"""

import tempfile

import zray as ray
from zray import tune
from zray.tune.schedulers import ASHAScheduler

EPOCHS = 9


def train(config):
    import torch
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    torch.set_num_threads(1)
    images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
    images = images.float() / 16
    layers = torch.nn.Linear(64, config["units"]), torch.nn.ReLU(), torch.nn.Linear(config["units"], 10)
    network = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), lr=config["rate"])
    for _ in range(EPOCHS):
        for start in range(0, 1400, 50):
            batch = slice(start, start + 50)
            loss = torch.nn.functional.cross_entropy(network(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = network(images[1400:]).argmax(1) == labels[1400:]
        tune.report({"accuracy": right.float().mean().item()})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ray.init(num_cpus=2):
        results = tune.Tuner(
            train,
            param_space={"rate": tune.loguniform(1e-4, 1e-1), "units": tune.choice([16, 64])},
            tune_config=tune.TuneConfig(
                metric="accuracy",
                mode="max",
                num_samples=12,
                scheduler=ASHAScheduler(max_t=EPOCHS, reduction_factor=3),
                reuse_actors=True,
                seed=1,
            ),
            run_config=tune.RunConfig(name="digits", storage_path=folder, verbose=0),
        ).fit()
        best = results.get_best_result()
        epochs = sum(result.metrics["training_iteration"] for result in results)
        percent = 100 * best.metrics["accuracy"]
        print(f"ASHA ran {epochs} of {12 * EPOCHS} epochs; the best network reads {percent:.0f} % of the digits")
        print(f"its learning rate lies above 0.001: {best.config['rate'] > 0.001}")
