"""All public names of Ray, from four versions: each works, or says in one sentence what to do instead."""

import re
from types import SimpleNamespace

import pytest

from docs import compatibility
from tests.docs.pages import DOCS
from zray.ray_names import absent
from zray.wire.listing import WorkListed


@pytest.mark.parametrize("module", compatibility.NAMES)
def test_name_of_ray_works_or_says_what_to_do_instead(module):
    walked = dict(compatibility.walk({module: compatibility.NAMES[module]}))
    assert [name for name, state in walked.items() if state == "unknown"] == []


def test_name_of_a_package_without_it_is_unknown():
    """An AttributeError has the name of the attribute, which is the name of no missing package."""
    walked = dict(compatibility.walk({"rllib": "NoSuch", "rllib.utils": "no_such", "tune": "Tuner"}))
    assert [name for name, state in walked.items() if state != "works"] == [
        "zray.rllib.NoSuch",
        "zray.rllib.utils.no_such",
    ]
    assert walked["zray.rllib.NoSuch"] == walked["zray.rllib.utils.no_such"] == "unknown"


def test_list_has_the_names_that_programs_use():
    names = {f"{module}.{name}".lstrip(".") for module, found in compatibility.NAMES.items() for name in found.split()}
    assert len(names) > 700
    assert {"tune.Tuner", "tune.search.optuna.OptunaSearch", "util.ActorPool", "train.torch.TorchTrainer"} <= names


def test_page_is_what_the_script_writes():
    text = (DOCS / "compatibility.md").read_text()
    assert compatibility.section() in text, "run scripts/compatibility"


@pytest.mark.parametrize(
    "statement",
    [
        "from zray.tune.schedulers.pbt import PopulationBasedTrainingReplay",
        "from zray.tune.trainable.function_trainable import FunctionTrainable",
        "from zray.util.state import get_job",
        "from zray.exceptions import RayChannelError",
        "import zray.tune.logger.aim",
        "import zray.dashboard.modules.job.sdk",
        "import zray.experimental.channel.shared_memory_channel",
        "from zray.util.tracing.setup_local_tmp_tracing import setup_tracing",
        "from zray.rllib import ExternalEnv",
        "from zray.tune import PB2",
        "import zray.rllib.utils.check_env",
        "from zray.rllib.train import create_parser",
    ],
)
def test_import_of_a_name_from_any_module_of_its_library_says_the_sentence(statement):
    last = re.split(r"[ .]", statement)
    candidates = [absent.NAMES[name] for name in absent.NAMES if name.rpartition(".")[2] in last]
    with pytest.raises(ModuleNotFoundError) as raised:
        exec(statement, {})
    assert str(raised.value).endswith(tuple(candidates))


def test_misspelt_name_gets_no_sentence():
    with pytest.raises(ImportError, match="cannot import name 'Tunner' from 'zray.tune'"):
        exec("from zray.tune import Tunner", {})
    with pytest.raises(AttributeError, match="^module 'zray.tune.registry' has no attribute 'register'$"):
        compatibility.importlib.import_module("zray.tune.registry").register  # noqa: B018


def test_modules_that_hold_the_names_of_another_one_are_it():
    for former, own in (
        ("zray.experimental.state.api", "zray.util.state"),
        ("zray.internal.internal_api", "zray.internal"),
        ("zray.tune.stopper.trial_plateau", "zray.tune.stoppers"),
        ("zray.tune.logger.tensorboardx", "zray.tune.logger"),
    ):
        load = compatibility.importlib.import_module
        assert load(former) is load(own)


def test_state_lists_work_after_an_import_under_the_former_name(monkeypatch):
    """Python makes the module an attribute of itself then: `zray.util.state.api`."""
    from zray.util import state

    compatibility.importlib.import_module("zray.util.state.api")
    assert state.api is state
    monkeypatch.setattr(state, "require_runtime", lambda: SimpleNamespace(ask=lambda question: WorkListed(1, [], [])))
    assert state.list_tasks() == []


@pytest.mark.parametrize(
    "statement",
    [
        "import zray.tune.no_such",
        "from zray.tune import NoSuch",
        "import zray.air.no_such.below",
        "from zray.util.no_such import value",
        "from zray.rllib.algorithms.ppo.no_such import Value",
        "from zray.rllib.utils.schedules import NoSuch",
        "from zray.rllib.utils.torch_utils import no_such",
        "from zray.experimental import no_such",
    ],
)
def test_import_of_a_name_without_a_row_says_where_names_are_listed(statement):
    with pytest.raises(
        ModuleNotFoundError, match="cannot import name '[Nn]o_?[Ss]uch' from .*: zray has no such mo"
    ) as raised:
        exec(statement, {})
    assert "docs/compatibility.md lists names of Ray" in str(raised.value)


def test_import_of_a_misspelt_name_says_which_one_is_like_it():
    with pytest.raises(ModuleNotFoundError, match="'Tunner' from 'zray.tune': .*  Did you mean 'Tuner'?"):
        exec("from zray.tune import Tunner", {})


def test_question_whether_a_module_is_there_gets_no_error():
    assert compatibility.importlib.util.find_spec("zray.tune.no_such") is None


@pytest.mark.parametrize(
    "former, own",
    [
        ("rllib.env.PettingZooEnv", "rllib.env.wrappers.pettingzoo_env.PettingZooEnv"),
        ("rllib.evaluation.SampleBatch", "rllib.policy.sample_batch.SampleBatch"),
        ("rllib.evaluation.MultiAgentBatch", "rllib.policy.sample_batch.MultiAgentBatch"),
        ("rllib.models.Preprocessor", "rllib.models.preprocessors.Preprocessor"),
        ("rllib.models.preprocessors.OneHotPreprocessor", "rllib.models.preprocessors.FlatteningPreprocessor"),
        ("rllib.utils.check_learning_achieved", "rllib.utils.test_utils.check_learning_achieved"),
        ("rllib.utils.try_import_tf", "rllib.utils.framework.try_import_tf"),
    ],
)
def test_name_in_another_module_is_the_same_object(former, own):
    load = compatibility.importlib.import_module
    found = [getattr(load(f"zray.{name.rpartition('.')[0]}"), name.rpartition(".")[2]) for name in (former, own)]
    assert found[0] is found[1]


def test_small_helpers_of_rllib_have_the_values_of_ray():
    from zray.rllib.utils import deprecation, framework, metrics, numpy

    assert numpy.relu([-1.0, 2.0]).tolist() == [0.0, 2.0]
    assert deprecation.DEPRECATED_VALUE == -1
    assert (metrics.LEARNER_RESULTS, metrics.NUM_EPISODES) == ("learners", "num_episodes")
    assert framework.try_import_jax() == (None, None)
    with pytest.raises(ImportError, match="models on torch only"):
        framework.try_import_jax(error=True)
