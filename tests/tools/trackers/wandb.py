"""Takes the place of wandb and records its calls."""
from recorder import record


class Run:
    def log(self, numbers, step):
        record("log", step, numbers)

    def finish(self):
        record("finish")


def init(project, entity, name, id, resume, config):
    record("init", project, name, id, resume, config)
    return Run()
