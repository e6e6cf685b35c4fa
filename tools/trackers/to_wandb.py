#!/usr/bin/env python3
"""Sends the metrics of a run to Weights & Biases while it trains: python3 tools/trackers/to_wandb.py RUN [--project NAME]

Needs the package wandb and what it needs to log in (WANDB_API_KEY, or WANDB_MODE=offline). docs/live.md describes all options.
"""
import uuid

import metrics


def main():
    def options(parser):
        parser.add_argument("--project", default="millrace", help="project; default millrace")
        parser.add_argument("--entity", help="team or user; default: that of the login")

    given = metrics.arguments("Weights & Biases", options)

    def open_tracker(config, state):
        import wandb

        if not state.run_id:
            state.set_run(uuid.uuid4().hex[:16])
        run = wandb.init(project=given.project, entity=given.entity, name=given.name, id=state.run_id, resume="allow", config=config)
        return lambda kind, step, numbers: run.log(numbers, step=step), run.finish

    metrics.follow(given, "wandb", open_tracker)


if __name__ == "__main__":
    main()
