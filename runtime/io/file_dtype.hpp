#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/base/dtype.hpp"

namespace millrace::runtime {

/// Types of numbers in safetensors files (its README, section "Format"). Ours in memory are fewer: kernels::DType.
enum class FileDType : std::uint8_t {
  boolean,
  u8,
  i8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
};

/// As in the header of a file: "BF16".
[[nodiscard]] std::string_view to_string(FileDType dtype) noexcept;
[[nodiscard]] std::optional<FileDType> file_dtype_from(std::string_view name) noexcept;
/// Bits of one element; 4 and 6 exist.
[[nodiscard]] unsigned bits_of(FileDType dtype) noexcept;
[[nodiscard]] FileDType file_dtype(kernels::DType dtype) noexcept;

/// Whether convert_to_float knows it: F32, BF16, F16, F64.
[[nodiscard]] bool is_plain_float(FileDType dtype) noexcept;
/// Elements of a file (any alignment) as fp32 or bf16, rounded to nearest even; equal types are copied bit for bit. bytes.size() fits the
/// destination. Error(internal) for a type that is_plain_float denies.
void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<float> destination);
void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<kernels::BFloat16> destination);
/// fp32 as one of the plain floats; F16 and BF16 round to nearest even. bytes.size() = source.size() · bits_of(dtype) / 8.
void convert(std::span<const float> source, FileDType dtype, std::span<std::byte> bytes);

/// IEEE half precision, which no kernel computes in.
[[nodiscard]] float half_to_float(std::uint16_t bits) noexcept;
[[nodiscard]] std::uint16_t float_to_half(float value) noexcept;

}  // namespace millrace::runtime
