"""An actor that recovers: its process is killed, and nobody notices; each deposit is in the balance once.

Prints:

    balance 10, kept by another process: False
    balance 55, kept by another process: True
    restored from a checkpoint: True
"""

import os
import signal

import zray as ray


@ray.remote(checkpoint_interval=4)  # its state is saved after each four calls; the calls since are run again
class Account:
    def __init__(self):
        self.balance = 0
        self.was_restored = False

    def deposit(self, amount):
        self.balance += amount

    def __zray_save__(self):
        return self.balance

    def __zray_restore__(self, balance):
        self.balance = balance
        self.was_restored = True

    @ray.method(readonly=True)  # changes nothing: it need not be run again
    def look(self):
        return self.balance, os.getpid(), self.was_restored


with ray.init(num_cpus=2):
    account = Account.remote()
    deposits = [account.deposit.remote(amount) for amount in range(1, 5)]
    balance, first, _ = ray.get(account.look.remote())
    print(f"balance {balance}, kept by another process: False")

    deposits += [account.deposit.remote(amount) for amount in range(5, 11)]
    os.kill(first, signal.SIGKILL)  # in the midst of them
    ray.get(deposits)
    balance, now, was_restored = ray.get(account.look.remote())
    print(f"balance {balance}, kept by another process: {now != first}")
    print(f"restored from a checkpoint: {was_restored}")
