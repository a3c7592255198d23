"""An async actor: calls that wait for each other share one process and one event loop.

Prints:

    nobody has knocked: None
    three waited, and all heard it: ['hello', 'hello', 'hello']
"""

import asyncio

import zray as ray


@ray.remote
class Door:
    def __init__(self):
        self.knocked = asyncio.Event()
        self.word = None

    async def listen(self):
        await self.knocked.wait()
        return self.word

    async def knock(self, word):
        self.word = word
        self.knocked.set()

    async def last_word(self):
        return self.word


async def main():
    door = Door.remote()
    listeners = [door.listen.remote() for _ in range(3)]
    print(f"nobody has knocked: {await door.last_word.remote()}")
    await door.knock.remote("hello")
    # References can be awaited, alone and together.
    print(f"three waited, and all heard it: {await asyncio.gather(*listeners)}")


with ray.init(num_cpus=2):
    asyncio.run(main())
