#include "kernels/embedding.hpp"

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

Data tokens_below(std::int64_t vocabulary, std::int64_t count) {
  Data tokens(DType::i32, {count});
  for (std::int64_t t = 0; t < count; ++t) tokens.set(t, static_cast<double>((t * 7 + t / 3) % vocabulary));
  return tokens;
}

TEST(Embedding, MatchesReference) {
  ThreadTeam team(2);
  for (const std::int64_t width : {1, 15, 48, 77})
    for (const DType table_type : {DType::f32, DType::bf16})
      for (const DType type : {DType::f32, DType::bf16}) {
        const Data tokens = tokens_below(11, 53);
        const Data table(table_type, {11, width}, 3);
        Data found(type, {53, width});
        Data wanted(type, {53, width});
        embedding_forward(fast(team), *tokens, *table, *found);
        embedding_forward(ExecutionContext(team, Implementation::reference), *tokens, *table, *wanted);
        EXPECT_TRUE(same_bits(found, wanted)) << width;
        EXPECT_TRUE(lies_within(found, [&](std::int64_t i) {
          const double entry = table.at(static_cast<std::int64_t>(tokens.at(i / width)) * width + i % width);
          return tests::around(entry, 0);
        }));

        const Data dy(type, {53, width}, 4);
        Data gradient(DType::f32, {11, width}, 5);
        Data wanted_gradient(gradient);
        embedding_weight_gradient(fast(team), *tokens, *dy, *gradient);
        embedding_weight_gradient(ExecutionContext(team, Implementation::reference), *tokens, *dy, *wanted_gradient);
        EXPECT_TRUE(same_bits(gradient, wanted_gradient)) << width;  // one order of additions: the same bits
        const Data before(DType::f32, {11, width}, 5);
        EXPECT_TRUE(lies_within(gradient, [&](std::int64_t i) {
          double sum = before.at(i), size = std::abs(sum);
          for (std::int64_t t = 0; t < 53; ++t) {
            if (tokens.at(t) != static_cast<double>(i / width)) continue;
            sum += dy.at(t * width + i % width);
            size += std::abs(dy.at(t * width + i % width));
          }
          return tests::around(sum, tests::roundings(53) * size);
        }));
      }
}

TEST(Embedding, GradientCountsRepeatedTokens) {
  ThreadTeam team(3);
  Data tokens(DType::i32, {5});
  for (std::int64_t t = 0; t < 5; ++t) tokens.set(t, t == 2 ? 0 : 1);
  Data dy(DType::f32, {5, 40});
  for (std::int64_t i = 0; i < dy.elements(); ++i) dy.set(i, 1);
  Data gradient(DType::f32, {3, 40});
  gradient.set(0, 10);
  embedding_weight_gradient(fast(team), *tokens, *dy, *gradient);
  EXPECT_EQ(gradient.get(0), 11);
  EXPECT_EQ(gradient.get(1), 1);
  EXPECT_EQ(gradient.get(40), 4);
  EXPECT_EQ(gradient.get(79), 4);
  EXPECT_EQ(gradient.get(80), 0);
}

TEST(Embedding, NamesATokenThatIsNotInTheTable) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  Data tokens = tokens_below(11, 9);
  const Data table(DType::f32, {11, 8}, 3);
  Data y(DType::f32, {9, 8});
  tokens.set(6, 11);
  try {
    embedding_forward(context, *tokens, *table, *y);
    wait();
    FAIL() << "took token 11 of 11";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    // A device reports it when the work is done, whichever of the embedding's kernels found it.
    EXPECT_STREQ(error.what(), on_device() ? "[kernels.embedding] token 11 at position 6, expected 0 to 10"
                                           : "[kernels.embedding_forward] token 11 at position 6, expected 0 to 10");
  }
  tokens.set(6, -1);
  // On a device the forward pass has reported it.
  EXPECT_EQ(thrown([&] { embedding_weight_gradient(context, *tokens, *y, *table); }), on_device() ? -1 : static_cast<int>(ExitCode::data));
}

}  // namespace
}  // namespace millrace::kernels::testing
