"""Takes the place of mlflow and records its calls."""
from recorder import record


class Run:
    class info:
        run_id = "run-of-mlflow"


def set_tracking_uri(uri):
    record("uri", uri)


def set_experiment(name):
    record("experiment", name)


def start_run(run_id=None, run_name=None):
    record("start", run_id, run_name)
    return Run()


def log_params(values):
    assert len(values) <= 100 and all(isinstance(value, str) for value in values.values())
    record("params", values)


def log_metrics(numbers, step):
    record("log", step, numbers)


def end_run():
    record("finish")
