#include "kernels/ngram_rows.hpp"

#include <iterator>
#include <vector>

#include "tests/kernels/fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels::testing {
namespace {

using Ids = std::vector<std::int32_t>;

Ids rows_of(const ExecutionContext& context, const Ids& tokens, const NgramOptions& options) {
  const auto count = static_cast<std::int64_t>(tokens.size()), tables = static_cast<std::int64_t>(options.rows.size());
  Data x(DType::i32, {count}), y(DType::i32, {count, tables});
  for (std::int64_t i = 0; i < count; ++i) x.set(i, tokens[static_cast<std::size_t>(i)]);
  ngram_rows(context, *x, options, *y);
  wait();
  Ids ids;
  for (std::int64_t i = 0; i < y.elements(); ++i) ids.push_back(static_cast<std::int32_t>(y.get(i)));
  return ids;
}

/// Two tables of bigrams and two of trigrams, by hand: the first token stands behind two paddings.
TEST(NgramRows, HashesWithWhatStandsBefore) {
  ThreadTeam team(1);
  const NgramOptions options{.sequence = 3, .padding = 5, .multipliers = {3, 7, 11}, .rows = {13, 17, 19, 23}};
  Ids expected;
  const Ids tokens{2, 4, 6, 8, 10, 12};
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int32_t one = t % 3 >= 1 ? tokens[t - 1] : 5, two = t % 3 >= 2 ? tokens[t - 2] : 5;
    const std::int32_t bigram = (tokens[t] * 3) ^ (one * 7), trigram = bigram ^ (two * 11);
    expected.insert(expected.end(), {bigram % 13, 13 + bigram % 17, 30 + trigram % 19, 49 + trigram % 23});
  }
  for (const Implementation implementation : {Implementation::fast, Implementation::reference}) {
    const ExecutionContext context = implementation == Implementation::fast ? fast(team) : ExecutionContext(team, implementation);
    EXPECT_EQ(rows_of(context, tokens, options), expected);
  }
}

// MaxText's record of a tiny model: the compressed ids of two rows of text, and the rows that layers 0 and 2 look up, counted from the
// beginning of each table.
constexpr std::int32_t row_tokens[] = {9,  24, 8,  4,  13, 37, 24, 27, 27, 3, 38, 25, 12, 42, 13, 31,
                                       22, 21, 41, 14, 23, 32, 26, 15, 2,  7, 7,  15, 22, 0,  0,  0};
constexpr std::int32_t ids_of_layer_0[] = {
    29, 10, 11, 25, 43, 10, 59, 35, 13, 51, 9,  35, 11, 43, 5,  32, 15, 57, 57, 19, 49, 19, 28, 66, 5,  32, 27, 58, 10, 6,  51, 49,
    3,  25, 8,  16, 42, 26, 38, 35, 17, 29, 47, 53, 39, 12, 14, 3,  26, 6,  30, 21, 4,  53, 52, 4,  2,  27, 5,  59, 11, 40, 55, 54,
    12, 31, 54, 9,  15, 3,  18, 28, 3,  2,  5,  27, 48, 13, 8,  61, 26, 42, 58, 38, 51, 47, 10, 34, 29, 3,  24, 18, 16, 21, 21, 28,
    0,  17, 11, 44, 41, 55, 56, 13, 13, 3,  25, 37, 52, 36, 10, 55, 5,  4,  16, 21, 2,  14, 17, 6,  0,  0,  1,  39, 0,  0,  0,  0};
constexpr std::int32_t ids_of_layer_2[] = {
    49, 69, 19, 30, 32, 58, 3,  59, 61, 65, 28, 63, 64, 1,  31, 72, 53, 30, 9,  45, 49, 56, 78, 6,  65, 18, 35, 43, 61, 7,  17, 21,
    51, 71, 64, 38, 54, 37, 72, 23, 52, 6,  68, 26, 60, 68, 45, 57, 40, 60, 31, 46, 2,  56, 24, 28, 51, 37, 22, 78, 66, 22, 74, 80,
    33, 47, 64, 18, 27, 35, 51, 23, 31, 0,  24, 73, 6,  27, 11, 75, 63, 15, 16, 14, 56, 4,  44, 78, 43, 52, 63, 50, 54, 43, 73, 23,
    46, 63, 32, 46, 36, 21, 0,  20, 7,  62, 6,  4,  3,  5,  54, 32, 41, 22, 56, 46, 46, 71, 46, 9,  0,  0,  43, 53, 0,  0,  0,  0};

TEST(NgramRows, AreThoseOfMaxText) {
  ThreadTeam team(1);
  const NgramOptions options[] = {{.sequence = 16, .multipliers = {40527737, 4277447, 8961535}, .rows = {53, 59, 61, 67}},
                                  {.sequence = 16, .multipliers = {14240507, 23099297, 4426117}, .rows = {71, 73, 79, 83}}};
  for (const std::size_t layer : {0U, 1U}) {
    const std::int32_t* expected = layer == 0 ? ids_of_layer_0 : ids_of_layer_2;
    const Ids found = rows_of(fast(team), Ids(std::begin(row_tokens), std::end(row_tokens)), options[layer]);
    ASSERT_EQ(found.size(), std::size(ids_of_layer_0));
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::int32_t first = 0;
      for (std::size_t table = 0; table < i % 4; ++table) first += options[layer].rows[table];
      EXPECT_EQ(found[i], first + expected[i]) << "layer " << 2 * layer << ", entry " << i;
    }
  }
}

/// A negative id passes through compression; its products wrap around and may be negative, the row is not.
TEST(NgramRows, AreNeverNegative) {
  ThreadTeam team(1);
  const NgramOptions options{.sequence = 4, .padding = -3, .multipliers = {2147483647, 1234567, 89}, .rows = {5, 7, 11, 13}};
  const Ids expected = rows_of(ExecutionContext(team, Implementation::reference), {-1, 5, -7, 2000000000}, options);
  EXPECT_EQ(rows_of(fast(team), {-1, 5, -7, 2000000000}, options), expected);
  std::int32_t first = 0;
  for (std::size_t table = 0; table < 4; ++table) {
    for (std::size_t t = 0; t < 4; ++t) {
      EXPECT_GE(expected[t * 4 + table], first);
      EXPECT_LT(expected[t * 4 + table], first + options.rows[table]);
    }
    first += options.rows[table];
  }
}

TEST(NgramRows, MatchTheirReferenceForAnyThreadCount) {
  for (const std::size_t length : {2U, 3U, 8U})
    for (const std::size_t heads : {1U, 3U, 8U}) {
      NgramOptions options{.sequence = 131, .padding = 17};
      for (std::size_t j = 0; j < length; ++j) options.multipliers.push_back(static_cast<std::int32_t>(2 * (j * 7919 + 12345) + 1));
      for (std::size_t i = 0; i < (length - 1) * heads; ++i) options.rows.push_back(static_cast<std::int32_t>(1001 + 2 * i));
      Ids tokens;
      for (std::int32_t i = 0; i < 3 * 131; ++i) tokens.push_back(i * 7919 % 50021);
      ThreadTeam one(1);
      const Ids expected = rows_of(ExecutionContext(one, Implementation::reference), tokens, options);
      for (const int threads : {1, 2, 3}) {
        ThreadTeam team(threads);
        EXPECT_EQ(rows_of(fast(team), tokens, options), expected) << length << " " << heads << " " << threads;
      }
    }
}

TEST(NgramRows, RefuseWhatDoesNotFit) {
  ThreadTeam team(1);
  const auto refused = [&](const NgramOptions& options, std::vector<std::string> says) {
    tests::expect_error([&] { (void)rows_of(fast(team), {1, 2, 3}, options); }, ExitCode::internal, says);
  };
  refused({.sequence = 2, .multipliers = {1, 3}, .rows = {5}}, {"kernels.ngram_rows", "2"});
  refused({.sequence = 3, .multipliers = {1}, .rows = {5}}, {"1 multipliers"});
  refused({.sequence = 3, .multipliers = {1, 3, 5}, .rows = {5, 7, 11}}, {"3 tables"});
  refused({.sequence = 3, .multipliers = {1, 3}, .rows = {0}}, {"1 or more"});
  refused({.sequence = 3, .multipliers = {1, 3}, .rows = {2000000000, 2000000000}}, {"below 2^31"});
}

}  // namespace
}  // namespace millrace::kernels::testing
