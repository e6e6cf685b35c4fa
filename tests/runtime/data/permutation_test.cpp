#include "runtime/data/permutation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace::runtime {
namespace {

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::int64_t n = 1; n <= 700; ++n) {
    const Permutation permutation(n, 17, static_cast<std::uint64_t>(n % 5));
    std::vector<bool> seen(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t image = permutation(i);
      ASSERT_GE(image, 0);
      ASSERT_LT(image, n);
      ASSERT_FALSE(seen[static_cast<std::size_t>(image)]) << "n = " << n << ", index " << i;
      seen[static_cast<std::size_t>(image)] = true;
    }
  }
}

TEST(Permutation, IsABijectionAtPowersOfFourAndTheirNeighbours) {
  for (const std::int64_t n : {4095, 4096, 4097, 65535, 65536, 65537, 100003}) {
    const Permutation permutation(n, 3, 1);
    std::vector<bool> seen(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto image = static_cast<std::size_t>(permutation(i));
      ASSERT_LT(image, seen.size());
      ASSERT_FALSE(seen[image]);
      seen[image] = true;
    }
  }
}

TEST(Permutation, StaysInsideHugeRanges) {
  const std::int64_t n = (std::int64_t{1} << 40) + 12345;
  const Permutation permutation(n, 9, 0);
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(permutation(n - 1 - i), 0);
    EXPECT_LT(permutation(n - 1 - i), n);
  }
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  const std::int64_t n = 1000;
  const auto agreements = [n](const Permutation& a, const Permutation& b) {
    int equal = 0;
    for (std::int64_t i = 0; i < n; ++i) equal += a(i) == b(i) ? 1 : 0;
    return equal;
  };
  EXPECT_EQ(agreements(Permutation(n, 1, 0), Permutation(n, 1, 0)), n);
  // Two random permutations agree in one place on average.
  EXPECT_LT(agreements(Permutation(n, 1, 0), Permutation(n, 2, 0)), 10);
  EXPECT_LT(agreements(Permutation(n, 1, 0), Permutation(n, 1, 1)), 10);
  EXPECT_LT(agreements(Permutation(n, 1, 2), Permutation(n, 2, 1)), 10);
}

TEST(Permutation, MixesNeighbours) {
  // In a random permutation the mean distance between the images of neighbours is n/3.
  const std::int64_t n = 10000;
  const Permutation permutation(n, 5, 0);
  double distance = 0;
  for (std::int64_t i = 0; i + 1 < n; ++i) distance += std::abs(static_cast<double>(permutation(i) - permutation(i + 1)));
  EXPECT_NEAR(distance / static_cast<double>(n - 1), static_cast<double>(n) / 3, 150.0);
}

}  // namespace
}  // namespace millrace::runtime
