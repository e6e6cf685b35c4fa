#include "runtime/io/file_dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

using kernels::BFloat16;

TEST(FileDType, NamesAndWidths) {
  for (int index = 0; index <= static_cast<int>(FileDType::f4); ++index) {
    const auto dtype = static_cast<FileDType>(index);
    EXPECT_EQ(file_dtype_from(to_string(dtype)), dtype);
  }
  EXPECT_FALSE(file_dtype_from("bf16"));
  EXPECT_EQ(bits_of(FileDType::f6_e2m3), 6U);
  EXPECT_EQ(bits_of(FileDType::c64), 64U);
  EXPECT_EQ(file_dtype(kernels::DType::bf16), FileDType::bf16);
}

TEST(FileDType, HalvesGoThereAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_EQ(float_to_half(value), half | 0x200) << "sign and payload stay, and it is quiet";
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
  EXPECT_EQ(half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(half_to_float(0x0001), std::ldexp(1.0F, -24));
}

TEST(FileDType, HalvesRoundToNearestEven) {
  EXPECT_EQ(float_to_half(1.0F + std::ldexp(1.0F, -11)), 0x3c00);                          // a tie, to even
  EXPECT_EQ(float_to_half(1.0F + 3 * std::ldexp(1.0F, -11)), 0x3c02);                      // a tie, to even
  EXPECT_EQ(float_to_half(1.0F + std::ldexp(1.0F, -11) + std::ldexp(1.0F, -20)), 0x3c01);  // just above a tie
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(std::ldexp(1.0F, -25)), 0x0000);
  EXPECT_EQ(float_to_half(std::ldexp(1.5F, -25)), 0x0001);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(FileDType, ConvertsUnalignedBytes) {
  const double values[] = {1.0, -2.5, 3.0e5};
  std::vector<std::byte> bytes(sizeof(values) + 1);
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  std::vector<float> floats(3);
  convert(FileDType::f64, std::span(bytes).subspan(1), std::span<float>(floats));
  EXPECT_EQ(floats, (std::vector<float>{1.0F, -2.5F, 3.0e5F}));
}

TEST(FileDType, DoublesBecomeBf16WithOneRounding) {
  // Just above the midpoint between 1 and 1 + 2^-7; rounding to fp32 first would lose the excess and then round to even.
  const double value = 1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
  std::vector<BFloat16> result(1);
  convert(FileDType::f64, std::as_bytes(std::span(&value, 1)), std::span<BFloat16>(result));
  EXPECT_EQ(kernels::to_float(result[0]), 1.0F + std::ldexp(1.0F, -7));
}

TEST(FileDType, FloatsGoIntoEveryPlainTypeAndBack) {
  const std::vector<float> source = {0.0F, -0.0F, 1.0F, -0.375F, 96.0F};  // exact in all types
  for (const auto dtype : {FileDType::f32, FileDType::bf16, FileDType::f16, FileDType::f64}) {
    std::vector<std::byte> bytes(source.size() * bits_of(dtype) / 8);
    convert(std::span<const float>(source), dtype, bytes);
    std::vector<float> floats(source.size());
    convert(dtype, bytes, std::span<float>(floats));
    std::vector<BFloat16> narrow(source.size());
    convert(dtype, bytes, std::span<BFloat16>(narrow));
    for (std::size_t index = 0; index < source.size(); ++index) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[index]), std::bit_cast<std::uint32_t>(source[index])) << to_string(dtype);
      EXPECT_EQ(kernels::to_float(narrow[index]), source[index]) << to_string(dtype);
    }
  }
}

TEST(FileDType, RefusesMemoryOfAnotherSize) {
  const std::vector<float> source = {1.0F, 2.0F, 3.0F};
  for (const auto dtype : {FileDType::f32, FileDType::bf16, FileDType::f16, FileDType::f64}) {
    for (const int difference : {-1, 1}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(static_cast<int>(source.size() * bits_of(dtype) / 8) + difference));
      std::vector<float> floats(source.size());
      EXPECT_THROW(convert(std::span<const float>(source), dtype, bytes), Error) << to_string(dtype);
      EXPECT_THROW(convert(dtype, bytes, std::span<float>(floats)), Error) << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace millrace::runtime
