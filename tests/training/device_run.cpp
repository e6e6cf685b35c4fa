#include "tests/training/device_run.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/device_type.hpp"
#include "tests/training/small_run.hpp"

namespace millrace::tests {

DeviceRun::DeviceRun() { write_small_texts(folder_, "text"); }

void DeviceRun::SetUp() {
  if (const std::string why = kernels::why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
}

JobResult DeviceRun::start(int processes, const std::string& directory, const Words& more, const Words& environment) const {
  Words words{"train",
              "model.preset=tiny",
              "model.layers=2",
              "data.text=" + folder_ / "text",
              "data.packing=true",
              "data.held_out=6",
              "evaluate.batches=1",
              "train.steps=3",
              "train.warmup_steps=1",
              "train.learning_rate=0.01",
              "train.clip=0.5",
              "train.batch=1",
              "train.sequence=16",
              "train.microbatches=4",
              "train.threads=1",
              "sample.tokens=0",
              "device=cuda",
              "cuda.tf32=false",
              "cuda.algorithms=",  // measured choices may differ between processes
              "cluster.timeout_ms=20000",
              "run.directory=" + folder_ / directory};
  words.insert(words.end(), more.begin(), more.end());
  return run_job(processes, words, 120, environment);
}

DeviceOutcome DeviceRun::outcome(const JobResult& job, const std::string& directory) const {
  DeviceOutcome outcome{job.code, job.out + job.err, {}, {}};
  if (job.code != 0) return outcome;
  std::ifstream stream(folder_ / directory + "/metrics.jsonl");
  for (std::string line; std::getline(stream, line);) {
    const auto record = nlohmann::json::parse(line);
    for (const char* name : {"loss", "gradient_norm", "evaluation_loss"})
      if (record.contains(name)) outcome.all[name].push_back(record.at(name).get<double>());
  }
  outcome.hash = run_job(1, {"ckpt", "hash", folder_ / directory}).out;
  return outcome;
}

DeviceOutcome DeviceRun::train(int processes, const std::string& directory, const Words& more, const Words& environment) const {
  return outcome(start(processes, directory, more, environment), directory);
}

bool emulated() {
  const auto devices = kernels::cuda_devices();
  return !devices.empty() && devices.front().name == "emulated";
}

}  // namespace millrace::tests
