#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/base/dtype.hpp"

namespace millrace::runtime {

/// Element types of safetensors files (its README, section "Format"). In memory there are fewer: kernels::DType.
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

/// The name in a file's header, such as "BF16".
[[nodiscard]] std::string_view to_string(FileDType dtype) noexcept;
[[nodiscard]] std::optional<FileDType> file_dtype_from(std::string_view name) noexcept;
/// Bits per element; some types have 4 or 6.
[[nodiscard]] unsigned bits_of(FileDType dtype) noexcept;
[[nodiscard]] FileDType file_dtype(kernels::DType dtype) noexcept;

/// Whether convert() supports the type: F32, BF16, F16, F64.
[[nodiscard]] bool is_plain_float(FileDType dtype) noexcept;
/// Converts elements of a file (any alignment) to fp32 or bf16, rounding to nearest even; equal types are copied bit for bit.
/// bytes.size() must match the destination. Error(internal) for a type for which is_plain_float() is false.
void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<float> destination);
void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<kernels::BFloat16> destination);
/// Converts fp32 to one of the plain float types; F16 and BF16 round to nearest even. bytes.size() = source.size() ·
/// bits_of(dtype) / 8.
void convert(std::span<const float> source, FileDType dtype, std::span<std::byte> bytes);

/// Converts IEEE half precision, which no kernel computes in.
[[nodiscard]] float half_to_float(std::uint16_t bits) noexcept;
[[nodiscard]] std::uint16_t float_to_half(float value) noexcept;

}  // namespace millrace::runtime
