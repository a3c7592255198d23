"""Names beside the public API that libraries on Ray use: each was missed by one that is published."""

import logging

import pytest

import zray
from tests.scripts import run_script

pytestmark = pytest.mark.usefixtures("session")


def test_modules_are_attributes_without_an_import(tmp_path):
    """Hamilton asks for `ray._raylet.ObjectRef`, and xgboost_ray for `ray.logger`."""
    program = """
        import zray as ray
        assert ray._raylet.ObjectRef is ray.ObjectRef
        assert ray.runtime_context.get_runtime_context is ray.get_runtime_context
        assert ray.remote_function.RemoteFunction
        print(ray.logger.name)
    """
    result = run_script(tmp_path, program)
    assert result.stdout == "zray\n", result.stderr
    assert zray.logger is logging.getLogger("zray")


def test_context_of_init_has_its_private_name():
    """ray_ease annotates with it."""
    from zray._private.worker import BaseContext, RayContext

    assert isinstance(zray.init(ignore_reinit_error=True), BaseContext) and RayContext is BaseContext
    assert zray._private.worker.is_initialized is zray.is_initialized


def test_private_arguments_of_init_that_modin_gives():
    assert zray.init(ignore_reinit_error=True, _redis_password="x", _redis_username="y", _system_config={"a": 1})
    with pytest.raises(TypeError, match="unexpected argument '_redis_pass'"):
        zray.init(_redis_pass="x")


def test_log_once_is_in_util_too():
    zray.util.debug.reset_log_once()
    assert [zray.util.log_once("a"), zray.util.log_once("a")] == [True, False]
    assert zray.util.disable_log_once_globally and zray.util.enable_periodic_logging


def test_name_of_the_session_is_equal_in_all_processes():
    @zray.remote
    def name():
        return zray.get_runtime_context().get_session_name()

    own = zray.get_runtime_context().get_session_name()
    assert zray.get(name.remote()) == own == zray.init(ignore_reinit_error=True)["session_name"]


def test_config_of_an_environment_is_a_dict():
    config = zray.runtime_env.RuntimeEnvConfig(setup_timeout_seconds=5, eager_install=False)
    assert zray.runtime_env.RuntimeEnv(config=config)["config"] == {"setup_timeout_seconds": 5, "eager_install": False}
    with pytest.raises(TypeError):
        zray.runtime_env.RuntimeEnvConfig(setup_timeout_seconds="a")


def test_options_without_an_effect_are_accepted():
    @zray.remote(enable_task_events=False)
    def one():
        return 1

    assert zray.get(one.options(enable_task_events=True).remote()) == 1
