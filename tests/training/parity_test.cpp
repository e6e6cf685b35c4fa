#include <gtest/gtest.h>

#include <map>

#include "tests/training/command.hpp"

// `millrace parity` against what transformers computed: within tolerance, and the same bits in every layout.
namespace millrace::tests {
namespace {

struct Where {
  std::string name;
  int processes;
  std::vector<std::string> words;
};

std::vector<Where> everywhere() {
  return {{"three_ranks_gpipe", 1, {"--ranks", "3", "--schedule", "gpipe"}},
          {"three_ranks_1f1b", 1, {"--ranks", "3", "--schedule", "1f1b"}},
          {"three_ranks_zb_h1", 1, {"--ranks", "3", "--schedule", "zb-h1"}},
          {"two_chunks", 1, {"--ranks", "2", "--chunks", "2", "--schedule", "looped-bfs"}},
          {"three_processes", 3, {"--schedule", "1f1b"}}};
}

/// The hash that the command printed: its line's last word.
std::string hash_of(const std::string& out) {
  const auto line = out.rfind("hash");
  if (line == std::string::npos) return {};
  const auto end = out.find('\n', line);
  const auto begin = out.rfind(' ', end);
  return out.substr(begin + 1, end - begin - 1);
}

using Model = std::tuple<std::string, std::string, Where>;

class Parity : public ::testing::TestWithParam<Model> {};

JobResult parity(const std::string& model, const std::string& dtype, int processes, const std::vector<std::string>& more) {
  std::vector<std::string> words{"parity", "tests/golden/" + model, "--dtype", dtype};
  words.insert(words.end(), more.begin(), more.end());
  return run_job(processes, words);
}

TEST_P(Parity, IsWithinToleranceWithTheBitsOfOneRank) {
  static std::map<std::string, JobResult> alone;
  const auto& [model, dtype, where] = GetParam();
  auto [found, is_new] = alone.try_emplace(model + dtype);
  if (is_new) found->second = parity(model, dtype, 1, {});
  const auto& expected = found->second;
  ASSERT_EQ(expected.code, 0) << expected.out << expected.err;
  ASSERT_EQ(hash_of(expected.out).size(), 32U) << expected.out;
  const auto here = parity(model, dtype, where.processes, where.words);
  ASSERT_EQ(here.code, 0) << here.out << here.err;
  EXPECT_EQ(hash_of(here.out), hash_of(expected.out));
}

INSTANTIATE_TEST_SUITE_P(Golden, Parity,
                         ::testing::Combine(::testing::Values("hf_llama", "hf_llama3"), ::testing::Values("fp32", "bf16"),
                                            ::testing::ValuesIn(everywhere())),
                         [](const auto& one) {
                           return std::get<0>(one.param) + "_" + std::get<1>(one.param) + "_" + std::get<2>(one.param).name;
                         });

TEST(ParityTolerance, IsHeld) {
  const auto strict = run_job(1, {"parity", "tests/golden/hf_llama", "--tolerance", "1e-6"});
  EXPECT_EQ(strict.code, 1) << strict.out << strict.err;
}

}  // namespace
}  // namespace millrace::tests
