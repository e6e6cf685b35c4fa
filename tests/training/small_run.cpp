#include "tests/training/small_run.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/training/command.hpp"

namespace millrace::tests {
namespace {

/// Fields that depend on the clock, the machine or the layout.
constexpr const char* measured[] = {"seconds",        "tokens_per_second", "flops_per_second", "bubble",           "wait",
                                    "data",           "resident_bytes",    "device_bytes",     "more_rounds",      "exchange",
                                    "exchange_bytes", "reduction",         "reduction_bytes",  "flops_utilization"};

std::vector<std::string> numbers(const std::string& metrics) {
  std::vector<std::string> lines;
  std::ifstream stream(metrics);
  for (std::string line; std::getline(stream, line);) {
    auto record = nlohmann::json::parse(line);
    for (const char* name : measured) record.erase(name);
    lines.push_back(record.dump());
  }
  return lines;
}

}  // namespace

void write_small_texts(const TemporaryFolder& folder, const std::string& name) {
  for (int file = 0; file < 60; ++file) {
    std::string text;
    for (int line = 0; line < 1 + file % 5; ++line) {
      text += std::to_string(line * 7 % (file + 5)) + (file % 3 == 0 ? " lines of a small story\n" : " words, and more\n");
    }
    folder.write(name + "/" + std::to_string(100 + file) + ".txt", text);
  }
}

Outcome run_small(int processes, const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  std::vector<std::string> all{"train",
                               "model.preset=tiny",
                               "data.text=" + folder / "text",
                               "data.packing=true",
                               "data.held_out=6",
                               "train.steps=10",
                               "train.warmup_steps=2",
                               "train.batch=2",
                               "train.sequence=32",
                               "train.microbatches=4",
                               "train.clip=0.5",
                               "train.learning_rate=0.01",
                               "train.threads=1",
                               "evaluate.batches=3",
                               "evaluate.every=5",
                               "run.directory=" + folder / "run"};
  all.insert(all.end(), words.begin(), words.end());
  const auto job = run_job(processes, all);
  Outcome outcome;
  outcome.code = job.code;
  outcome.said = job.out + job.err;
  if (job.code != 0) return outcome;
  outcome.lines = numbers(folder / "run/metrics.jsonl");
  outcome.hash = run_job(1, {"ckpt", "hash", folder / "run"}).out;
  return outcome;
}

}  // namespace millrace::tests
