#include "tests/training/layouts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "tests/training/small_run.hpp"

namespace millrace::tests {
namespace {

const Outcome& one_rank(const Numbers& numbers) {
  static std::map<std::string, Outcome> known;
  auto [found, is_new] = known.try_emplace(numbers.name());
  if (is_new) found->second = run_small(1, numbers.words());
  return found->second;
}

}  // namespace

std::vector<std::string> Numbers::words() const {
  return {"train.dtype=" + dtype,
          std::string("model.tie_word_embeddings=") + (tied ? "true" : "false"),
          "train.threads=" + std::to_string(threads),
          "train.accumulators=" + std::to_string(accumulators),
          std::string("train.leaf=") + (leaves ? "microbatch" : "part"),
          "model.layers=" + std::to_string(layers),
          "train.microbatches=" + std::to_string(microbatches),
          "train.steps=" + std::to_string(steps)};
}

std::string Numbers::name() const {
  std::string name = dtype + (tied ? "_tied" : "_untied");
  const auto add = [&](const char* word, int number) { name += "_" + std::string(word) + "_" + std::to_string(number); };
  add("threads", threads);
  add("accumulators", accumulators);
  if (leaves) name += "_leaves";
  if (layers != Numbers{}.layers) add("layers", layers);
  if (microbatches != Numbers{}.microbatches) add("microbatches", microbatches);
  return name;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = [] {
    std::vector<Layout> list;
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int processes : {1, 2, 4}) {
        list.push_back({std::string(schedule == "zb-h1" ? "zb_h1" : schedule) + "_in_" + std::to_string(processes),
                        processes,
                        {"pipeline.ranks=4", "pipeline.schedule=" + schedule}});
      }
    }
    list.push_back({"warmup", 1, {"pipeline.ranks=4", "pipeline.schedule=1f1b", "pipeline.warmup=4"}});
    list.push_back({"looped_1", 1, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=looped-bfs"}});
    list.push_back({"looped_2", 2, {"pipeline.ranks=2", "pipeline.chunks=2", "pipeline.schedule=looped-bfs"}});
    list.push_back({"chunks_of_one_rank", 1, {"pipeline.chunks=3", "pipeline.schedule=looped-bfs"}});
    list.push_back({"uneven", 1, {"pipeline.ranks=4", "pipeline.layout=E t*2 | | t | t H"}});
    list.push_back({"uneven_split", 2, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "pipeline.layout=E t | t*3 | | H"}});
    list.push_back({"own_stages", 1, {"pipeline.ranks=4", "pipeline.layout=E | t | t*3 | H"}});
    list.push_back({"halves", 1, {"pipeline.ranks=4", "pipeline.layout=E t a | f a | f | t H"}});
    list.push_back({"halves_split", 2, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "pipeline.layout=E a | f t a | f a | f H"}});
    list.push_back({"full", 1, {"rematerialize.policy=full"}});
    list.push_back({"full_split", 1, {"pipeline.ranks=4", "pipeline.schedule=zb-h1", "rematerialize.policy=full"}});
    list.push_back({"by_label", 1, {"pipeline.ranks=2", "rematerialize.policy=query_proj,mlpwo"}});
    list.push_back({"by_stage", 2, {"pipeline.ranks=4", "rematerialize.stages=full,none,query_proj+mlpwo,minimal"}});
    list.push_back({"by_label_split", 2, {"pipeline.ranks=2", "pipeline.schedule=zb-h1", "rematerialize.policy=query_proj,mlpwo"}});
    return list;
  }();
  return all;
}

const Layout& layout(const std::string& name) {
  const auto found = std::ranges::find(layouts(), name, &Layout::name);
  if (found == layouts().end()) throw std::invalid_argument("no layout " + name);
  return *found;
}

std::string name_of(const LayoutCase& one) { return one.numbers.name() + "_" + one.layout.name; }

void expect_the_bits_of_one_rank(const LayoutCase& one) {
  const auto& expected = one_rank(one.numbers);
  ASSERT_EQ(expected.code, 0) << expected.said;
  ASSERT_EQ(expected.lines.size(), static_cast<std::size_t>(one.numbers.steps) + 3);  // a header, the steps, two evaluations
  auto words = one.numbers.words();
  words.insert(words.end(), one.layout.words.begin(), one.layout.words.end());
  const auto found = run_small(one.layout.processes, words);
  ASSERT_EQ(found.code, 0) << found.said;
  EXPECT_EQ(found.lines, expected.lines);
  EXPECT_EQ(found.hash, expected.hash);
  EXPECT_EQ(found.hash.size(), 33U) << found.hash;
}

}  // namespace millrace::tests
