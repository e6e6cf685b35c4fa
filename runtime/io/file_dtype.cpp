#include "runtime/io/file_dtype.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

using kernels::BFloat16;

struct NamedType {
  std::string_view name;
  unsigned bits;
};

constexpr std::array<NamedType, 22> named_types = {
    {{"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"I16", 16},    {"U16", 16},    {"I32", 32}, {"U32", 32},    {"I64", 64},
     {"U64", 64},    {"F16", 16},        {"BF16", 16},       {"F32", 32},    {"F64", 64},    {"C64", 64}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
     {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}}};

template <class T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class Stored, class Result, class Change>
void convert_each(std::span<const std::byte> bytes, std::span<Result> destination, Change change) {
  MILLRACE_CHECK(bytes.size() == destination.size() * sizeof(Stored), ExitCode::internal, "runtime.convert",
                 "{} bytes, expected {} elements of {} bytes each", bytes.size(), destination.size(), sizeof(Stored));
  for (std::size_t index = 0; index < destination.size(); ++index)
    destination[index] = change(load<Stored>(bytes.data() + index * sizeof(Stored)));
}

// Rounds to odd. The conversion f64 → bf16 first rounds to odd in fp32, which gives the same result as a single rounding to bf16.
float round_to_odd(double value) noexcept {
  const auto rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || std::isnan(value) || std::isinf(rounded)) return rounded;
  const bool away = std::abs(static_cast<double>(rounded)) > std::abs(value);
  const auto toward_zero = std::bit_cast<std::uint32_t>(rounded) - (away ? 1U : 0U);
  return std::bit_cast<float>(toward_zero | 1U);
}

template <class Result>
void convert_any(FileDType dtype, std::span<const std::byte> bytes, std::span<Result> destination) {
  switch (dtype) {
    case FileDType::f32:
      return convert_each<float>(bytes, destination, [](float value) { return kernels::from_float<Result>(value); });
    case FileDType::bf16:
      return convert_each<std::uint16_t>(
          bytes, destination, [](std::uint16_t value) { return kernels::from_float<Result>(kernels::to_float(BFloat16{value})); });
    case FileDType::f16:
      return convert_each<std::uint16_t>(bytes, destination,
                                         [](std::uint16_t value) { return kernels::from_float<Result>(half_to_float(value)); });
    case FileDType::f64:
      return convert_each<double>(bytes, destination, [](double value) {
        if constexpr (std::is_same_v<Result, float>)
          return static_cast<float>(value);
        else
          return kernels::from_float<Result>(round_to_odd(value));
      });
    default:
      fail(ExitCode::internal, "runtime.convert", "elements of type {} cannot be converted to floats", to_string(dtype));
  }
}

template <class Stored, class Change>
void store_each(std::span<const float> source, std::span<std::byte> bytes, Change change) {
  MILLRACE_CHECK(bytes.size() == source.size() * sizeof(Stored), ExitCode::internal, "runtime.convert",
                 "{} bytes, expected {} elements of {} bytes each", bytes.size(), source.size(), sizeof(Stored));
  for (std::size_t index = 0; index < source.size(); ++index) {
    const Stored value = change(source[index]);
    std::memcpy(bytes.data() + index * sizeof(Stored), &value, sizeof(Stored));
  }
}

}  // namespace

std::string_view to_string(FileDType dtype) noexcept { return named_types[static_cast<std::size_t>(dtype)].name; }
unsigned bits_of(FileDType dtype) noexcept { return named_types[static_cast<std::size_t>(dtype)].bits; }

std::optional<FileDType> file_dtype_from(std::string_view name) noexcept {
  for (std::size_t index = 0; index < named_types.size(); ++index)
    if (named_types[index].name == name) return static_cast<FileDType>(index);
  return std::nullopt;
}

FileDType file_dtype(kernels::DType dtype) noexcept {
  switch (dtype) {
    case kernels::DType::bf16:
      return FileDType::bf16;
    case kernels::DType::i32:
      return FileDType::i32;
    case kernels::DType::i64:
      return FileDType::i64;
    case kernels::DType::f64:
      return FileDType::f64;
    case kernels::DType::f32:
      break;
  }
  return FileDType::f32;
}

bool is_plain_float(FileDType dtype) noexcept {
  return dtype == FileDType::f32 || dtype == FileDType::bf16 || dtype == FileDType::f16 || dtype == FileDType::f64;
}

void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<float> destination) {
  if (dtype == FileDType::f32 && bytes.size() == destination.size_bytes() && !bytes.empty()) {
    std::memcpy(destination.data(), bytes.data(), bytes.size());
    return;
  }
  convert_any(dtype, bytes, destination);
}

void convert(FileDType dtype, std::span<const std::byte> bytes, std::span<BFloat16> destination) {
  if (dtype == FileDType::bf16 && bytes.size() == destination.size_bytes() && !bytes.empty()) {
    std::memcpy(destination.data(), bytes.data(), bytes.size());
    return;
  }
  convert_any(dtype, bytes, destination);
}

void convert(std::span<const float> source, FileDType dtype, std::span<std::byte> bytes) {
  switch (dtype) {
    case FileDType::f32:
      return store_each<float>(source, bytes, [](float value) { return value; });
    case FileDType::bf16:
      return store_each<std::uint16_t>(source, bytes, [](float value) { return kernels::to_bfloat16(value).bits; });
    case FileDType::f16:
      return store_each<std::uint16_t>(source, bytes, [](float value) { return float_to_half(value); });
    case FileDType::f64:
      return store_each<double>(source, bytes, [](float value) { return static_cast<double>(value); });
    default:
      fail(ExitCode::internal, "runtime.convert", "floats cannot be converted to {}", to_string(dtype));
  }
}

float half_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x1ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {                                                    // below 2^-14: subnormal, in units of 2^-24
    const auto units = std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24));
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(units));
  }
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(rounded >> 13));
}

}  // namespace millrace::runtime
