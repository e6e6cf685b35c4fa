#include "tests/reliability/training.hpp"

#include <fstream>

#include "tests/tools/run_command.hpp"

namespace millrace::tests {

Training::Training(std::vector<std::string> recipe) : recipe_(std::move(recipe)) {
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int line = 0; line < 60; ++line) text += "line " + std::to_string(line * 7 % (file + 5)) + " of a small story\n";
    folder_.write("text/" + std::to_string(file) + ".txt", text);
  }
}

std::vector<std::string> Training::words(const std::string& directory, const std::vector<std::string>& more) const {
  std::vector<std::string> words{"train", "configs/runs/tiny.toml", "run.directory=" + path(directory), "data.text=" + folder_ / "text",
                                 "train.steps=" + std::to_string(steps), "train.batch=1", "train.sequence=32", "train.threads=1",
                                 "evaluate.every=10", "evaluate.batches=4", "checkpoint.every=5", "pipeline.ranks=4",
                                 // for busy test machines; a death closes the connection and is detected at once
                                 "cluster.timeout_ms=20000"};
  words.insert(words.end(), recipe_.begin(), recipe_.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

JobEnd Training::run(int processes, const std::string& directory, const std::vector<std::string>& more,
                     const std::vector<std::string>& environment) const {
  Job job(processes > 1 ? mpirun(processes) : std::vector<std::string>{}, words(directory, more), environment);
  const auto end = job.wait(patience);
  EXPECT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
  return end.value_or(JobEnd{});
}

TrainingResult Training::result(const std::string& directory) const {
  const auto hash = run_millrace({"ckpt", "hash", path(directory)});
  EXPECT_EQ(hash.code, 0) << hash.err;
  std::ifstream stream(path(directory) + "/metrics.jsonl");
  std::string metrics;
  for (std::string line; std::getline(stream, line);) metrics += line.substr(0, line.find(",\"seconds\":")) + "\n";
  return {hash.out, metrics};
}

const TrainingResult& Training::undisturbed() {
  if (!undisturbed_) {
    const auto end = run(4, "undisturbed");
    EXPECT_EQ(end.code, 0) << end.err;
    undisturbed_ = result("undisturbed");
    EXPECT_TRUE(has(undisturbed_->metrics, "\"step\":" + std::to_string(steps)));
  }
  return *undisturbed_;
}

}  // namespace millrace::tests
