#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::kernels {

/// Number types in memory. A bf16 is the upper half of an fp32.
enum class DType : std::uint8_t { f32, bf16, i32, i64, f64 };

[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return 2;
    case DType::i64:
    case DType::f64:
      return 8;
    default:
      return 4;
  }
}

[[nodiscard]] constexpr std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::f64:
      return "f64";
  }
  return "?";
}

struct BFloat16 {
  std::uint16_t bits;
};

[[nodiscard]] inline float to_float(BFloat16 value) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
[[nodiscard]] inline float to_float(float value) noexcept { return value; }

/// Round to nearest, ties to even; NaN stays NaN.
[[nodiscard]] inline BFloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

template <class T>
[[nodiscard]] inline T from_float(float value) noexcept;
template <>
inline float from_float<float>(float value) noexcept {
  return value;
}
template <>
inline BFloat16 from_float<BFloat16>(float value) noexcept {
  return to_bfloat16(value);
}

}  // namespace millrace::kernels
