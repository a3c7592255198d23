"""Programs written for Ray Tune, ten of each generation."""

import pytest

from tests.tune.programs import of_2018, of_2020, of_today

# Packages that zray does not need.
NEEDS = {
    "bayesian_with_points": "optuna",
    "optuna_with_asha": "optuna",
    "define_by_run": "optuna",
    "several_objectives": "optuna",
    "torch_with_checkpoints": "torch",
    "sklearn_grid": "sklearn",
    "evaluated_expressions": "yaml",
}
PROGRAMS = [
    pytest.param(program, id=f"{module.__name__.rpartition('.')[2]}-{program.__name__}")
    for module in (of_2018, of_2020, of_today)
    for program in module.PROGRAMS
]


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:tune.run. export_formats has no effect")
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_runs(session, program, tmp_path):
    if program.__name__ in NEEDS:
        pytest.importorskip(NEEDS[program.__name__])
    program(str(tmp_path))
