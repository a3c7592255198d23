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


def test_private_worker_says_where_code_runs():
    """Libraries tell the program from its workers so."""
    from zray._private import worker

    @zray.remote
    def mode():
        from zray._private.worker import global_worker

        return global_worker.mode, global_worker.connected

    assert zray.get(mode.remote()) == (worker.WORKER_MODE, True)
    assert (worker.global_worker.mode, worker.global_worker.connected) == (worker.SCRIPT_MODE, True)
    assert (zray.SCRIPT_MODE, zray.WORKER_MODE) == (worker.SCRIPT_MODE, worker.WORKER_MODE)
    assert worker.remote is zray.remote and worker.kill is zray.kill and worker.get_actor is zray.get_actor


def test_private_worker_outside_of_sessions_and_in_local_mode(tmp_path):
    program = """
        from zray.util import as_ray
        as_ray.install()
        import ray
        from ray.worker import global_worker
        print(global_worker.connected, global_worker.mode)
        ray.init(local_mode=True)
        print(global_worker.connected, global_worker.mode == ray._private.worker.LOCAL_MODE)
    """
    result = run_script(tmp_path, program)
    assert result.stdout == "False None\nTrue True\n", result.stderr
