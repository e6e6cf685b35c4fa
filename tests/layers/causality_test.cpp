#include <gtest/gtest.h>

#include <bit>

#include "tests/layers/model_fixture.hpp"

// Tokens that a token may not see do not affect its bits: neither later tokens nor other documents of its row.
namespace millrace::layers::testing {
namespace {

constexpr std::int64_t kCausalSequence = 24;
constexpr std::int64_t kVocabulary = 61;

class Causality : public ::testing::TestWithParam<kernels::DType> {
 protected:
  Causality() : model_(tiny_model(true), options()) { model_.initialise(3); }
  [[nodiscard]] static LoopOptions options() {
    LoopOptions options;
    options.compute = GetParam();
    options.sequence = kCausalSequence;
    return options;
  }
  /// Logits of a row as bits, one vector per token.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> bits(const runtime::FillBatch& fill) {
    const auto logits = model_.logits(fill);
    std::vector<std::vector<std::uint32_t>> rows(kCausalSequence);
    for (std::size_t i = 0; i < logits.size(); ++i) rows[i / kVocabulary].push_back(std::bit_cast<std::uint32_t>(logits[i]));
    return rows;
  }
  Model model_;
};

TEST_P(Causality, AChangedTokenChangesNothingBeforeIt) {
  const auto ids = random_ids(kCausalSequence, kVocabulary, 5);
  const auto before = bits(rows_of(ids, 1, kCausalSequence));
  for (const std::size_t t : {std::size_t{1}, std::size_t{13}, std::size_t{23}}) {
    auto changed = ids;
    changed[t] = (changed[t] + 1) % static_cast<std::int32_t>(kVocabulary);
    const auto after = bits(rows_of(changed, 1, kCausalSequence));
    for (std::size_t other = 0; other < kCausalSequence; ++other) {
      EXPECT_EQ(before[other] == after[other], other < t) << "token " << t << " changed, logits of token " << other;
    }
  }
}

TEST_P(Causality, DocumentsOfARowDoNotSeeEachOther) {
  constexpr std::size_t border = 11;
  const auto packed = [](std::vector<std::int32_t> ids) {
    return [ids](std::int64_t, const runtime::BatchView& batch) {
      for (std::size_t t = 0; t < ids.size(); ++t) {
        batch.tokens[t] = ids[t];
        batch.segments[t] = t < border ? 1 : 2;
        batch.positions[t] = static_cast<std::int32_t>(t < border ? t : t - border);
        batch.targets[t] = t + 1 == border || t + 1 == ids.size() ? -1 : ids[t + 1];
      }
    };
  };
  const auto ids = random_ids(kCausalSequence, kVocabulary, 8);
  const auto before = bits(packed(ids));
  auto changed = ids;
  for (std::size_t t = 0; t < border; ++t) changed[t] = (changed[t] + 7) % static_cast<std::int32_t>(kVocabulary);
  const auto after = bits(packed(changed));
  for (std::size_t t = 0; t < kCausalSequence; ++t) EXPECT_EQ(before[t] == after[t], t >= border) << "token " << t;
}

INSTANTIATE_TEST_SUITE_P(DTypes, Causality, ::testing::Values(kernels::DType::f32, kernels::DType::bf16),
                         [](const auto& dtype) { return std::string(kernels::to_string(dtype.param)); });

}  // namespace
}  // namespace millrace::layers::testing
