#include "runtime/data/engram_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/data/pcg64.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

using Numbers = std::vector<std::int32_t>;

TEST(Pcg64, HasTheNumbersOfNumPy) {
  EXPECT_EQ(static_cast<double>(Pcg64(42).next64() >> 11) * 0x1p-53, 0.7739560485559633);
  Pcg64 generator(12345);
  for (const std::uint32_t expected : {6U, 2U, 7U}) EXPECT_EQ(generator.below(10), expected);
}

/// One possible number needs no draw.
TEST(Pcg64, DrawsNothingForABoundOfOne) {
  Pcg64 one(7), other(7);
  EXPECT_EQ(one.below(1), 0U);
  EXPECT_EQ(one.next32(), other.next32());
}

TEST(Pcg64, HalvesComeLowerFirst) {
  Pcg64 halves(9), whole(9);
  const std::uint64_t both = whole.next64();
  EXPECT_EQ(halves.next32(), static_cast<std::uint32_t>(both));
  EXPECT_EQ(halves.next32(), static_cast<std::uint32_t>(both >> 32));
}

TEST(EngramHash, HasTheMultipliersOfMaxText) {
  const EngramShape shape{.layers = {1, 4, 15}, .bases = {1000, 1000}};
  const auto small = engram_hashes(shape, 1000), large = engram_hashes(shape, 128815);
  EXPECT_EQ(small[0].multipliers, (Numbers{322113, 1768027, 1331345}));
  EXPECT_EQ(small[1].multipliers, (Numbers{2122247, 1897877, 817147}));
  EXPECT_EQ(small[2].multipliers, (Numbers{2112089, 667211, 1850413}));
  EXPECT_EQ(large[0].multipliers, (Numbers{2501, 13725, 10335}));
  EXPECT_EQ(large[1].multipliers, (Numbers{16475, 14733, 6343}));
  EXPECT_EQ(large[2].multipliers, (Numbers{16395, 5179, 14363}));
}

TEST(EngramHash, GivesOutPrimesOnce) {
  const auto hashes = engram_hashes({.layers = {1, 4}, .bases = {226240, 226240}}, 128815);
  EXPECT_EQ(hashes[0].rows, (Numbers{226241, 226267, 226283, 226307, 226313, 226337, 226357, 226367,  //
                                     226379, 226381, 226397, 226409, 226427, 226433, 226451, 226453}));
  EXPECT_EQ(hashes[1].rows, (Numbers{226463, 226483, 226487, 226511, 226531, 226547, 226549, 226553,  //
                                     226571, 226601, 226609, 226621, 226631, 226637, 226643, 226649}));
  EXPECT_EQ(hashes[0].all_rows(), 3621802);
  EXPECT_EQ(hashes[1].all_rows(), 3625086);
}

// Of MaxText: compressed ids of two rows, and the rows that layers 0 and 2 look up.
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

TEST(EngramHash, FindsTheRowsOfMaxText) {
  const EngramShape shape{.layers = {0, 2}, .max_ngram = 3, .heads = 2, .bases = {50, 60}, .seed = 3};
  const auto hashes = engram_hashes(shape, 43);
  EXPECT_EQ(hashes[0].multipliers, (Numbers{40527737, 4277447, 8961535}));
  EXPECT_EQ(hashes[1].multipliers, (Numbers{14240507, 23099297, 4426117}));
  EXPECT_EQ(hashes[0].rows, (Numbers{53, 59, 61, 67}));
  EXPECT_EQ(hashes[1].rows, (Numbers{71, 73, 79, 83}));
  const std::span<const std::int32_t> expected[] = {ids_of_layer_0, ids_of_layer_2};
  for (std::size_t layer = 0; layer < 2; ++layer)
    for (std::size_t row = 0; row < 2; ++row) {
      Numbers found(64);
      hashes[layer].fill(std::span(row_tokens).subspan(row * 16, 16), 0, found);
      EXPECT_TRUE(std::ranges::equal(found, expected[layer].subspan(row * 64, 64))) << layer << " " << row;
    }
}

/// A negative token passes through compression; its products may be negative, the row is not.
TEST(EngramHash, RowsAreNeverNegative) {
  const auto hash = engram_hashes({.layers = {0}, .heads = 2, .bases = {5, 5}}, 1)[0];
  const std::int32_t tokens[] = {-1, 5, -7, 2000000000};
  Numbers ids(16);
  hash.fill(tokens, -3, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_GE(ids[i], 0);
    EXPECT_LT(ids[i], hash.rows[i % 4]);
  }
}

TEST(EngramHash, RefusesWhatDoesNotFit) {
  const auto refused = [](const EngramShape& shape, std::int64_t vocabulary, std::vector<std::string> says) {
    tests::expect_error([&] { (void)engram_hashes(shape, vocabulary); }, ExitCode::model, says);
  };
  refused({.layers = {0}, .bases = {10}}, 10, {"engram_vocab_bases has 1 entries", "expected 2"});
  refused({.layers = {0}, .bases = {10, 0}}, 10, {"engram_vocab_bases = 0"});
  refused({.layers = {0}, .max_ngram = 1}, 10, {"engram_max_ngram_size = 1"});
  refused({.layers = {2, 2}, .bases = {10, 10}}, 10, {"engram_layers = 2"});
  refused({.layers = {0}, .heads = 0, .bases = {10, 10}}, 10, {"engram_num_heads = 0"});
  refused({.layers = {0}, .bases = {10, 10}}, 0, {"compressed vocabulary = 0"});
  refused({.layers = {3}, .bases = {1000000000, 1000000000}}, 10, {"layer 3", "32-bit ids"});
}

}  // namespace
}  // namespace millrace::runtime
