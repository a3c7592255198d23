"""Options of a program in one object, under the name by which programs written for Ray find them."""

from .api.job_config import JobConfig

__all__ = ["JobConfig"]
