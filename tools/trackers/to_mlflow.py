#!/usr/bin/env python3
"""Sends the metrics of a run to MLflow while it trains: python3 tools/trackers/to_mlflow.py RUN [--experiment NAME] [--uri URI]

Needs the package mlflow. docs/live.md describes all options.
"""
import metrics

PARAMETERS_AT_ONCE = 100  # MLflow's limit of a call
LONGEST_VALUE = 500       # characters, the oldest limit that is in use


def main():
    def options(parser):
        parser.add_argument("--experiment", default="millrace", help="experiment; default millrace")
        parser.add_argument("--uri", help="tracking URI; default: MLflow's (MLFLOW_TRACKING_URI, or ./mlruns)")

    given = metrics.arguments("MLflow", options)

    def open_tracker(config, state):
        import mlflow

        if given.uri:
            mlflow.set_tracking_uri(given.uri)
        mlflow.set_experiment(given.experiment)
        if state.run_id:
            mlflow.start_run(run_id=state.run_id)
        else:
            state.set_run(mlflow.start_run(run_name=given.name).info.run_id)
            values = [(key, str(value)[:LONGEST_VALUE]) for key, value in config.items()]
            for begin in range(0, len(values), PARAMETERS_AT_ONCE):
                mlflow.log_params(dict(values[begin : begin + PARAMETERS_AT_ONCE]))
        return lambda kind, step, numbers: mlflow.log_metrics(numbers, step=step), mlflow.end_run

    metrics.follow(given, "mlflow", open_tracker)


if __name__ == "__main__":
    main()
