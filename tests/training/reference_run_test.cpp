#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/io/safetensors.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/training/command.hpp"

// `millrace train` against runs computed by PyTorch (tools/reference/train_steps.py): order of the data, initial values, masks, loss, norm,
// clipping, learning rate and optimizer of every step, none of it at its default.
namespace millrace::tests {
namespace {

struct Case {
  std::string run;
  std::string layout;
  int processes = 1;
  std::vector<std::string> words;
  std::vector<std::string> environment = {};  // with a fault the job ends early, and the same command is run again
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.run << ", " << one.layout; }

nlohmann::json reference(const std::string& run) {
  std::ifstream stream(source_path("tests/golden/runs/" + run + ".json"));
  return nlohmann::json::parse(stream);
}

/// The lines of steps in metrics.jsonl.
std::vector<nlohmann::json> steps_of(const std::string& directory) {
  std::ifstream stream(directory + "/metrics.jsonl");
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(stream, line);) {
    auto record = nlohmann::json::parse(line);
    if (record.contains("learning_rate")) steps.push_back(std::move(record));
  }
  return steps;
}

std::vector<float> floats(const runtime::SafetensorsFile& file, const std::string& name) {
  std::vector<float> values(file.at(name).elements());
  file.read(name, std::span<float>(values));
  return values;
}

// The reference computes in float64, so the difference is fp32's rounding: 6e-8 of a number at each operation. A logit is the
// result of about twenty roundings of numbers below 10, and the loss is their mean; that gives a few 1e-6, which ten steps of the
// optimizer propagate.
constexpr double loss_bound = 5e-6;
constexpr double norm_bound = 5e-6;         // relative
constexpr double parameter_bound = 1.5e-5;  // absolute, for entries of magnitude 0.2 that moved by 0.1

class ReferenceRun : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] std::string directory() const { return folder_ / "run"; }

  void train() {
    std::vector<std::string> words{"train", "train.threads=1", "run.directory=" + directory()};
    for (const auto& word : expected_["arguments"]) words.push_back(word.get<std::string>());
    words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
    if (!GetParam().environment.empty()) {
      const auto first = run_job(GetParam().processes, words, 120, GetParam().environment);
      ASSERT_NE(first.code, 0) << "the fault did not strike\n" << first.out;
    }
    const auto job = run_job(GetParam().processes, words);
    ASSERT_EQ(job.code, 0) << job.out << job.err;
    EXPECT_EQ(job.out.find("resumes after step") != std::string::npos, !GetParam().environment.empty()) << job.out;
    const auto exported = run_job(1, {"ckpt", "export-hf", directory(), folder_ / "hf"});
    ASSERT_EQ(exported.code, 0) << exported.err;
  }

  /// Compares the norm of each parameter, and every entry for the run whose reference file has them all.
  void expect_parameters() {
    const runtime::SafetensorsFile after(folder_ / "hf/model.safetensors");
    std::optional<runtime::SafetensorsFile> entries;
    if (GetParam().run == "cosine") entries.emplace(source_path("tests/golden/runs/cosine.safetensors"));
    for (const auto& [name, norm] : expected_["parameter_norms"].items()) {
      const auto found = floats(after, name);
      double squares = 0;
      for (const double value : found) squares += value * value;
      EXPECT_NEAR(std::sqrt(squares), norm.get<double>(), norm_bound * norm.get<double>()) << name;
      if (!entries) continue;
      const auto expected = floats(*entries, name);
      ASSERT_EQ(found.size(), expected.size()) << name;
      double largest = 0;
      for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(found[i]) - expected[i]));
      EXPECT_LE(largest, parameter_bound) << name;
    }
  }

  TemporaryFolder folder_;
  nlohmann::json expected_ = reference(GetParam().run);
};

TEST_P(ReferenceRun, GivesTheNumbersOfPytorch) {
  train();
  if (HasFatalFailure()) return;
  const auto steps = steps_of(directory());
  ASSERT_EQ(steps.size(), expected_["steps"].size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    SCOPED_TRACE("step " + std::to_string(s + 1));
    const auto& found = steps[s];
    const auto& expected = expected_["steps"][s];
    EXPECT_EQ(found["step"], s + 1);
    EXPECT_EQ(found["tokens"], 4 * 2 * 16);
    EXPECT_EQ(found["targets"], expected["targets"]);
    const double rate = expected["learning_rate"];
    EXPECT_NEAR(found["learning_rate"].get<double>(), rate, 1e-14 * rate);
    EXPECT_NEAR(found["loss"].get<double>(), expected["loss"].get<double>(), loss_bound);
    const double norm = expected["gradient_norm"];
    EXPECT_NEAR(found["gradient_norm"].get<double>(), norm, norm_bound * norm);
    const double flops = expected_["flops_per_step"];
    EXPECT_NEAR(found["flops_per_second"].get<double>() * found["seconds"].get<double>(), flops, 1e-9 * flops);
  }
  expect_parameters();
}

const std::vector<std::string> two_ranks{"pipeline.ranks=2", "pipeline.schedule=1f1b"};

INSTANTIATE_TEST_SUITE_P(Runs, ReferenceRun,
                         ::testing::ValuesIn(std::vector<Case>{
                             {"cosine", "one_rank"},
                             {"cosine", "zb_h1", 1, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "pipeline.layout=E | t | t*2 | H"}},
                             {"cosine",
                              "two_processes_resumed",
                              2,
                              {"pipeline.ranks=2", "checkpoint.every=4"},
                              {"MILLRACE_FAULT=point=checkpoint.after_commit:hit=1:kill:rank=0"}},
                             {"linear", "two_ranks", 1, two_ranks},
                             {"wsd", "two_chunks", 1, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=looped-bfs"}},
                             {"constant", "gpipe", 1, {"pipeline.ranks=3", "pipeline.schedule=gpipe"}},
                             {"sgd", "two_ranks", 1, two_ranks},
                             {"nesterov",
                              "two_processes_resumed",
                              2,
                              {"pipeline.ranks=2", "checkpoint.every=3"},
                              {"MILLRACE_FAULT=point=checkpoint.after_commit:hit=1:kill:rank=0"}},
                         }),
                         [](const auto& one) { return one.param.run + "_" + one.param.layout; });

}  // namespace
}  // namespace millrace::tests
