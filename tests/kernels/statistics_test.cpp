#include "kernels/statistics.hpp"

#include <limits>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

TEST(Statistics, OfEveryType) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::f64}) {
    Data x(dtype, {2, 2});
    x.set(0, 3);
    x.set(1, -4);
    const Statistics found = statistics(*x);
    EXPECT_EQ(found.minimum, -4) << to_string(dtype);
    EXPECT_EQ(found.maximum, 3);
    EXPECT_EQ(found.mean, -0.25);
    EXPECT_EQ(found.norm, 5);
    EXPECT_EQ(found.not_finite, 0);
  }
}

TEST(Statistics, CountsWhatIsNotFiniteAndLeavesItOut) {
  Data x(DType::f32, {4});
  x.set(0, std::numeric_limits<double>::quiet_NaN());
  x.set(1, std::numeric_limits<double>::infinity());
  x.set(2, 2);
  x.set(3, 6);
  const Statistics found = statistics(*x);
  EXPECT_EQ(found.not_finite, 2);
  EXPECT_EQ(found.minimum, 2);
  EXPECT_EQ(found.maximum, 6);
  EXPECT_EQ(found.mean, 4);
}

}  // namespace
}  // namespace millrace::kernels::testing
