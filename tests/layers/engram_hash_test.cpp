#include "layers/engram_hash.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "layers/pcg64.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::layers {
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
  EngramConfig config{.layers = {1, 4, 15}, .vocab_bases = {1000, 1000}, .compressed_vocab_size = 1000};
  const auto small = engram_hashes(config);
  config.compressed_vocab_size = 128815;
  const auto large = engram_hashes(config);
  EXPECT_EQ(small[0].multipliers, (Numbers{322113, 1768027, 1331345}));
  EXPECT_EQ(small[1].multipliers, (Numbers{2122247, 1897877, 817147}));
  EXPECT_EQ(small[2].multipliers, (Numbers{2112089, 667211, 1850413}));
  EXPECT_EQ(large[0].multipliers, (Numbers{2501, 13725, 10335}));
  EXPECT_EQ(large[1].multipliers, (Numbers{16475, 14733, 6343}));
  EXPECT_EQ(large[2].multipliers, (Numbers{16395, 5179, 14363}));
}

TEST(EngramHash, GivesOutPrimesOnce) {
  const auto hashes = engram_hashes({.layers = {1, 4}, .vocab_bases = {226240, 226240}, .compressed_vocab_size = 128815});
  EXPECT_EQ(hashes[0].rows, (Numbers{226241, 226267, 226283, 226307, 226313, 226337, 226357, 226367,  //
                                     226379, 226381, 226397, 226409, 226427, 226433, 226451, 226453}));
  EXPECT_EQ(hashes[1].rows, (Numbers{226463, 226483, 226487, 226511, 226531, 226547, 226549, 226553,  //
                                     226571, 226601, 226609, 226621, 226631, 226637, 226643, 226649}));
  EXPECT_EQ(all_rows(hashes[0]), 3621802);
  EXPECT_EQ(all_rows(hashes[1]), 3625086);
}

/// Those of MaxText's tiny model; kernels/ngram_rows_test.cpp has its rows.
TEST(EngramHash, HasTheTablesOfMaxTextsTinyModel) {
  const auto hashes = engram_hashes({.layers = {0, 2}, .heads = 2, .vocab_bases = {50, 60}, .seed = 3, .compressed_vocab_size = 43});
  EXPECT_EQ(hashes[0].multipliers, (Numbers{40527737, 4277447, 8961535}));
  EXPECT_EQ(hashes[1].multipliers, (Numbers{14240507, 23099297, 4426117}));
  EXPECT_EQ(hashes[0].rows, (Numbers{53, 59, 61, 67}));
  EXPECT_EQ(hashes[1].rows, (Numbers{71, 73, 79, 83}));
}

TEST(EngramHash, RefusesWhatDoesNotFit) {
  const EngramConfig fitting{.layers = {0}, .vocab_bases = {10, 10}, .compressed_vocab_size = 10};
  EXPECT_EQ(engram_hashes(fitting).size(), 1U);
  const auto refused = [&](const std::function<void(EngramConfig&)>& change, std::vector<std::string> says) {
    EngramConfig config = fitting;
    change(config);
    tests::expect_error([&] { (void)engram_hashes(config); }, ExitCode::model, says);
  };
  refused([](EngramConfig& config) { config.vocab_bases = {10}; }, {"engram_vocab_bases has 1 entries", "expected 2"});
  refused([](EngramConfig& config) { config.vocab_bases = {10, 0}; }, {"engram_vocab_bases = 0"});
  refused([](EngramConfig& config) { config.max_ngram = 1; }, {"engram_max_ngram_size = 1", "2 to 8"});
  refused([](EngramConfig& config) { config.layers = {2, 2}; }, {"engram_layers = 2"});
  refused([](EngramConfig& config) { config.heads = 0; }, {"engram_num_heads = 0"});
  refused([](EngramConfig& config) { config.heads = 200; }, {"engram_num_heads = 200", "1 to 128"});
  refused([](EngramConfig& config) { config.compressed_vocab_size = 0; }, {"engram_compressed_vocab_size = 0"});
  refused([](EngramConfig& config) { config.compressed_pad_id = 10; }, {"engram_compressed_pad_id = 10", "0 to 9"});
  refused([](EngramConfig& config) { config.vocab_bases = {1000000000, 1000000000}; }, {"layer 0", "32-bit ids"});
}

}  // namespace
}  // namespace millrace::layers
