#!/usr/bin/env python3
"""Sends the metrics of a run to Aim while it trains: python3 tools/trackers/to_aim.py RUN [--experiment NAME] [--repo PATH]

Needs the package aim. docs/live.md describes all options.
"""
import metrics


def main():
    def options(parser):
        parser.add_argument("--experiment", default="millrace", help="experiment; default millrace")
        parser.add_argument("--repo", help="Aim's repository, a path or aim://HOST:PORT; default: that of the current folder")

    given = metrics.arguments("Aim", options)

    def open_tracker(config, state):
        import aim

        run = aim.Run(run_hash=state.run_id, repo=given.repo, experiment=given.experiment)
        if not state.run_id:
            state.set_run(run.hash)
            run.name = given.name
            run["hparams"] = config

        def send(kind, step, numbers):
            for name, value in numbers.items():
                run.track(value, name=name, step=step, context={"subset": "evaluation" if kind == "evaluation" else "train"})

        return send, run.close

    metrics.follow(given, "aim", open_tracker)


if __name__ == "__main__":
    main()
