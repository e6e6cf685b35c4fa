#include "runtime/data/batch_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

/// Tokens 0, 1, 2, … with borders at chosen places.
class CountingStream final : public TokenStream {
 public:
  CountingStream(std::int64_t size, std::vector<std::int64_t> borders) : size_(size), borders_(std::move(borders)) {}
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    for (auto& token : tokens) {
      if (first >= size_) throw std::out_of_range("read beyond the stream");
      token = static_cast<std::int32_t>(first++);
    }
  }
  [[nodiscard]] std::int64_t next_border(std::int64_t first, std::int64_t last) const override {
    for (const std::int64_t border : borders_) {
      if (border >= first && border < last) return border;
    }
    return last;
  }

 private:
  std::int64_t size_;
  std::vector<std::int64_t> borders_;
};

std::vector<std::int32_t> values(std::span<const std::int32_t> field) { return {field.begin(), field.end()}; }

std::int64_t count_valid(const Batch& batch) {
  return std::ranges::count_if(batch.targets, [](std::int32_t target) { return target >= 0; });
}

TEST(BatchSource, EveryWindowComesOnceAnEpoch) {
  for (const std::int64_t size : {9, 16, 17, 801, 1003}) {
    const CountingStream stream(size, {});
    const BatchShape shape{.rows = 3, .sequence = 8, .microbatches = 2, .seed = 4};
    const BatchSource source(stream, shape);
    ASSERT_EQ(source.windows(), (size - 1) / 8);
    std::map<std::int32_t, int> seen;
    Batch batch(3, 8);
    // Over six epochs there are 6 * windows samples, which is divisible by the rows of a step.
    for (std::int64_t step = 0; step < source.windows(); ++step) {
      for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch) {
        source.fill(step, microbatch, batch.view());
        for (std::size_t row = 0; row < 3; ++row) ++seen[batch.tokens[row * 8]];
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), source.windows());
    for (const auto& [token, times] : seen) EXPECT_EQ(times, 6) << "window of token " << token << " of " << size;
  }
}

TEST(BatchSource, IsAPureFunctionOfSeedAndSample) {
  const CountingStream stream(1000, {100, 500});
  // The same samples in another number and size of microbatches: sample = (step * microbatches + microbatch) * rows + row.
  const BatchSource four(stream, {.rows = 4, .sequence = 10, .microbatches = 3, .seed = 4});
  const BatchSource two(stream, {.rows = 2, .sequence = 10, .microbatches = 6, .seed = 4});
  const BatchSource other(stream, {.rows = 4, .sequence = 10, .microbatches = 3, .seed = 5});
  Batch a(4, 10), b(2, 10), c(2, 10), d(4, 10);
  four.fill(7, 1, a.view());
  two.fill(7, 2, b.view());
  two.fill(7, 3, c.view());
  other.fill(7, 1, d.view());
  EXPECT_TRUE(std::equal(b.tokens.begin(), b.tokens.end(), a.tokens.begin()));
  EXPECT_TRUE(std::equal(c.targets.begin(), c.targets.end(), a.targets.begin() + 20));
  EXPECT_NE(values(a.tokens), values(d.tokens));
  EXPECT_EQ(four.valid_targets(7), two.valid_targets(7));
  // Every position of a row has the key of the row's sample, which is never 0, the key of padding.
  std::set<std::int32_t> keys;
  for (std::size_t row = 0; row < 4; ++row) {
    const auto samples = std::span(a.samples).subspan(row * 10, 10);
    EXPECT_EQ(std::ranges::count(samples, samples.front()), 10) << "row " << row;
    keys.insert(samples.front());
  }
  EXPECT_EQ(keys.size(), 4U);
  EXPECT_FALSE(keys.contains(0));
}

TEST(BatchSource, TargetsFollowTheirTokens) {
  const CountingStream stream(101, {});
  const BatchSource source(stream, {.rows = 5, .sequence = 10, .microbatches = 2, .seed = 0});
  Batch batch(5, 10);
  for (std::int64_t microbatch = 0; microbatch < 2; ++microbatch) {
    source.fill(0, microbatch, batch.view());
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(batch.positions[i], static_cast<std::int32_t>(i % 10));
    for (const std::int32_t segment : batch.segments) EXPECT_EQ(segment, 1);
  }
  EXPECT_EQ(source.valid_targets(0), 100);
}

TEST(BatchSource, BordersMaskTargetsAndStartSegments) {
  const CountingStream stream(9, {2, 3, 7});
  Batch batch(1, 8);
  const BatchSource packed(stream, {.rows = 1, .sequence = 8, .microbatches = 1, .seed = 1, .packing = true});
  packed.fill(0, 0, batch.view());
  EXPECT_EQ(values(batch.tokens), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(values(batch.targets), (std::vector<std::int32_t>{1, 2, -1, -1, 5, 6, 7, -1}));
  EXPECT_EQ(values(batch.segments), (std::vector<std::int32_t>{1, 1, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(values(batch.positions), (std::vector<std::int32_t>{0, 1, 2, 0, 0, 1, 2, 3}));
  EXPECT_EQ(packed.valid_targets(0), 5);

  const BatchSource open(stream, {.rows = 1, .sequence = 8, .microbatches = 1, .seed = 1, .packing = false});
  open.fill(0, 0, batch.view());
  EXPECT_EQ(values(batch.targets), (std::vector<std::int32_t>{1, 2, -1, -1, 5, 6, 7, -1}));
  EXPECT_EQ(values(batch.segments), (std::vector<std::int32_t>(8, 1)));
  EXPECT_EQ(values(batch.positions), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(BatchSource, CountsTheTargetsItWillGive) {
  std::vector<std::int64_t> borders;
  for (std::int64_t border = 3; border < 2000; border += 1 + border % 23) borders.push_back(border);
  const CountingStream stream(2000, borders);
  const BatchSource source(stream, {.rows = 3, .sequence = 16, .microbatches = 4, .seed = 8});
  Batch batch(3, 16);
  for (std::int64_t step = 0; step < 12; ++step) {
    std::int64_t valid = 0;
    for (std::int64_t microbatch = 0; microbatch < 4; ++microbatch) {
      source.fill(step, microbatch, batch.view());
      valid += count_valid(batch);
    }
    EXPECT_EQ(source.valid_targets(step), valid);
    EXPECT_LT(valid, 3 * 16 * 4);
  }
}

/// The counts that are made from borders alone against those from what is filled in.
TEST(BatchSource, CountsTheTargetsOfModules) {
  std::vector<std::int64_t> borders;
  for (std::int64_t border = 3; border < 2000; border += 1 + border % 23) borders.push_back(border);
  const CountingStream stream(2000, borders);
  for (const bool packing : {true, false})
    for (const bool last : {true, false})
      for (const std::int64_t modules : {1, 2, 5, 20}) {
        SCOPED_TRACE(::testing::Message() << modules << " modules, packing " << packing << ", last border only " << last);
        const BatchShape shape{.rows = 3, .sequence = 16, .microbatches = 4, .seed = 8, .packing = packing, .modules = {1, modules, last}};
        const BatchSource source(stream, shape);
        const EvaluationSource evaluation(stream, shape);
        Batch batch(3, 16);
        for (std::int64_t step = 0; step < 6; ++step) {
          std::int64_t found = 0;
          for (std::int64_t microbatch = 0; microbatch < 4; ++microbatch) {
            source.fill(step, microbatch, batch.view());
            found += count_mtp_targets(batch.targets, batch.segments, 16, shape.modules);
          }
          EXPECT_EQ(source.mtp_targets(step), found);
        }
        std::int64_t all = 0, first = 0;
        for (std::int64_t microbatch = 0; microbatch < evaluation.microbatches(); ++microbatch) {
          evaluation.fill(microbatch, batch.view());
          all += count_mtp_targets(batch.targets, batch.segments, 16, shape.modules);
          first += count_mtp_targets(batch.targets, batch.segments, 16, {1, 1, last});
        }
        EXPECT_EQ(evaluation.mtp_targets(0, evaluation.microbatches(), 0), all);
        EXPECT_EQ(evaluation.mtp_targets(0, evaluation.microbatches(), 1), first);
      }
}

/// How often each sample of some steps began at each token of each stream. The streams count from different numbers on.
std::vector<std::map<std::int32_t, int>> windows_seen(const BatchSource& source, const std::vector<std::int32_t>& firsts,
                                                      std::int64_t steps) {
  std::vector<std::map<std::int32_t, int>> seen(firsts.size());
  Batch batch(2, 8);
  for (std::int64_t step = 0; step < steps; ++step)
    for (std::int64_t microbatch = 0; microbatch < 3; ++microbatch) {
      source.fill(step, microbatch, batch.view());
      for (std::size_t row = 0; row < 2; ++row) {
        const std::int32_t token = batch.tokens[row * 8];
        const auto stream = static_cast<std::size_t>(std::ranges::upper_bound(firsts, token) - firsts.begin()) - 1;
        ++seen[stream][token];
      }
    }
  return seen;
}

/// A stream of the tokens first, first + 1, ….
class ShiftedStream final : public TokenStream {
 public:
  ShiftedStream(std::int64_t size, std::int32_t first) : counting_(size, {}), first_(first) {}
  [[nodiscard]] std::int64_t size() const noexcept override { return counting_.size(); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    counting_.read(first, tokens);
    for (auto& token : tokens) token += first_;
  }
  [[nodiscard]] std::int64_t next_border(std::int64_t, std::int64_t last) const override { return last; }

 private:
  CountingStream counting_;
  std::int32_t first_;
};

TEST(TokenStream, JoinedStreamsDoNotRunIntoEachOther) {
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (const std::int32_t first : {0, 100, 200}) streams.push_back(std::make_unique<ShiftedStream>(first == 100 ? 0 : 4, first));
  const auto joined = join(std::move(streams));
  ASSERT_EQ(joined->size(), 8);
  std::vector<std::int32_t> tokens(6);
  joined->read(1, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 2, 3, 200, 201, 202}));
  EXPECT_EQ(joined->next_border(0, 8), 3);
  EXPECT_EQ(joined->next_border(0, 3), 3);
  EXPECT_EQ(joined->next_border(4, 8), 7);
  EXPECT_EQ(joined->next_border(4, 6), 6);
}

TEST(BatchSource, MixesStreamsByTheirWeightsEachWithItsOwnEpochs) {
  const ShiftedStream web(81, 0), code(33, 1000), talk(17, 2000);  // 10, 4 and 2 windows
  const BatchShape shape{.rows = 2, .sequence = 8, .microbatches = 3, .seed = 4};
  const BatchSource source({{&web, 0.5, "web"}, {&code, 0.3, "code"}, {&talk, 0.2, "talk"}}, shape);
  EXPECT_EQ(source.windows(), 16);
  // 20 steps are 120 samples: 60, 36 and 24, which are 6, 9 and 12 epochs.
  const auto seen = windows_seen(source, {0, 1000, 2000}, 20);
  const std::vector<std::size_t> windows = {10, 4, 2};
  const std::vector<int> epochs = {6, 9, 12};
  for (std::size_t stream = 0; stream < 3; ++stream) {
    EXPECT_EQ(seen[stream].size(), windows[stream]);
    for (const auto& [token, times] : seen[stream]) EXPECT_EQ(times, epochs[stream]) << token;
  }
  const auto progress = source.progress(20);
  EXPECT_EQ(progress.tokens, 120 * 8);
  ASSERT_EQ(progress.sources.size(), 3U);
  EXPECT_EQ(progress.sources[1].name, "code");
  EXPECT_EQ(progress.sources[1].tokens, 36 * 8);
  for (std::size_t stream = 0; stream < 3; ++stream) EXPECT_DOUBLE_EQ(progress.sources[stream].epochs, epochs[stream]);
  EXPECT_DOUBLE_EQ(source.share(2), 0.2);
  EXPECT_EQ(source.progress(0).tokens, 0);
  EXPECT_EQ(source.valid_targets(3), 48);
}

TEST(BatchSource, AMixtureIsAFunctionOfSeedAndSample) {
  const ShiftedStream web(801, 0), code(801, 1000);
  const std::vector<WeightedStream> streams = {{&web, 0.3, "web"}, {&code, 0.7, "code"}};
  const auto rows_of = [&](const BatchShape& shape, std::int64_t step) {
    const BatchSource source(streams, shape);
    std::vector<std::int32_t> tokens;
    for (std::int64_t microbatch = 0; microbatch < shape.microbatches.microbatches(step); ++microbatch) {
      Batch batch(static_cast<std::size_t>(shape.rows), 8);
      source.fill(step, microbatch, batch.view());
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
    }
    return tokens;
  };
  const auto tokens = rows_of({.rows = 4, .sequence = 8, .microbatches = 3, .seed = 4}, 11);
  EXPECT_EQ(rows_of({.rows = 1, .sequence = 8, .microbatches = 12, .seed = 4}, 11), tokens);
  const auto other = rows_of({.rows = 4, .sequence = 8, .microbatches = 3, .seed = 5}, 11);
  EXPECT_NE(other, tokens);
  for (std::size_t i = 0; i < tokens.size(); i += 8)
    EXPECT_EQ(other[i] >= 1000, tokens[i] >= 1000) << "the seed does not choose the source";
  // Streams of the same size are not read in the same order.
  const BatchSource even({{&web, 1, "web"}, {&code, 1, "code"}}, {.rows = 2, .sequence = 8, .microbatches = 1, .seed = 4});
  int same = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    Batch batch(2, 8);
    even.fill(step, 0, batch.view());
    if (batch.tokens[0] + 1000 == batch.tokens[8]) ++same;
  }
  EXPECT_LT(same, 10);
}

TEST(BatchSource, AWeightDoesNotChangeASingleStream) {
  const CountingStream stream(1000, {100, 500});
  const BatchShape shape{.rows = 4, .sequence = 10, .microbatches = 3, .seed = 4};
  const BatchSource plain(stream, shape), weighted({{&stream, 0.2, "only"}}, shape);
  Batch a(4, 10), b(4, 10);
  for (const std::int64_t step : {0, 7, 40}) {
    plain.fill(step, 1, a.view());
    weighted.fill(step, 1, b.view());
    EXPECT_EQ(values(a.tokens), values(b.tokens));
    EXPECT_EQ(values(a.samples), values(b.samples));
  }
  EXPECT_DOUBLE_EQ(plain.progress(1).sources.front().epochs, 12.0 / 99);
}

TEST(BatchSource, WantsAWholeWindow) {
  const CountingStream stream(8, {});
  const CountingStream longer(9, {});
  expect_error(
      [&] {
        const BatchSource source({{&longer, 1, "web"}, {&stream, 1, "code"}}, {.rows = 1, .sequence = 8});
      },
      ExitCode::data, {"source code: 8 tokens for training, expected 9 or more"});
  expect_error([&] { const BatchSource source(stream, {.rows = 1, .sequence = 8}); }, ExitCode::data,
               {"8 tokens for training, expected 9 or more"});
}

TEST(EvaluationSource, GivesEveryTargetOnceAndPadsTheRest) {
  for (const std::int64_t size : {2, 8, 9, 10, 100, 161}) {
    const CountingStream stream(size, {});
    const EvaluationSource source(stream, {.rows = 3, .sequence = 8});
    std::vector<int> seen(static_cast<std::size_t>(size));
    Batch batch(3, 8);
    std::int64_t valid = 0;
    for (std::int64_t microbatch = 0; microbatch < source.microbatches(); ++microbatch) {
      std::ranges::fill(batch.tokens, 77);  // the remains of an earlier microbatch
      std::ranges::fill(batch.samples, 77);
      source.fill(microbatch, batch.view());
      EXPECT_EQ(values(batch.samples), std::vector<std::int32_t>(24, 0)) << "nothing is dropped";
      valid += count_valid(batch);
      for (std::size_t i = 0; i < 24; ++i) {
        if (batch.targets[i] >= 0) {
          ++seen[static_cast<std::size_t>(batch.targets[i])];
          EXPECT_EQ(batch.segments[i], 1);
          continue;
        }
        EXPECT_EQ(batch.segments[i], 0);
        EXPECT_EQ(batch.tokens[i], 0);
        EXPECT_EQ(batch.positions[i], 0);
      }
    }
    EXPECT_EQ(valid, size - 1);
    EXPECT_EQ(source.valid_targets(0, source.microbatches()), valid);
    for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_EQ(seen[i], 1) << "token " << i << " of " << size;
  }
}

TEST(EvaluationSource, CountsPartsThatAddUp) {
  const CountingStream stream(500, {7, 8, 120, 300, 301, 499});
  const EvaluationSource source(stream, {.rows = 4, .sequence = 16});
  std::int64_t sum = 0;
  for (std::int64_t microbatch = 0; microbatch < source.microbatches(); ++microbatch) {
    Batch batch(4, 16);
    source.fill(microbatch, batch.view());
    EXPECT_EQ(source.valid_targets(microbatch, 1), count_valid(batch));
    sum += count_valid(batch);
  }
  EXPECT_EQ(source.valid_targets(0, source.microbatches()), sum);
  EXPECT_EQ(source.valid_targets(0, 1000), sum);
  EXPECT_EQ(sum, 499 - 5);  // the border at 499 is only the last target, never an input
}

}  // namespace
}  // namespace millrace::runtime
