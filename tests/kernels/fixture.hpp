#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/stream.hpp"
#include "kernels/base/tensor.hpp"

/// What the tests of kernels share: tensors that own their memory, numbers from a seed, comparisons that say where.
namespace millrace::kernels::testing {

/// A tensor with memory of its own, filled from a seed with numbers in [-scale, scale].
class Data {
 public:
  Data(DType dtype, Shape shape, std::uint64_t seed = 0, float scale = 1.0F) : buffer_(bytes_of(dtype, shape)) {
    tensor_ = make_tensor(buffer_.data(), dtype, shape);
    if (seed == 0) return;
    for (std::int64_t i = 0; i < tensor_.elements(); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      set(i, scale * (static_cast<float>(seed >> 40) / 8388608.0F - 1.0F));
    }
  }
  Data(const Data& other) : Data(other.tensor_.dtype, other.tensor_.shape) {
    if (tensor_.bytes() > 0) std::memcpy(tensor_.data, other.tensor_.data, tensor_.bytes());
  }

  [[nodiscard]] const Tensor& operator*() const { return tensor_; }
  [[nodiscard]] std::int64_t elements() const { return tensor_.elements(); }
  [[nodiscard]] double get(std::int64_t i) const {
    switch (tensor_.dtype) {
      case DType::bf16:
        return to_float(tensor_.as<BFloat16>()[i]);
      case DType::i32:
        return tensor_.as<std::int32_t>()[i];
      case DType::f64:
        return tensor_.as<double>()[i];
      default:
        return tensor_.as<float>()[i];
    }
  }
  void set(std::int64_t i, double value) {
    switch (tensor_.dtype) {
      case DType::bf16:
        tensor_.as<BFloat16>()[i] = to_bfloat16(static_cast<float>(value));
        break;
      case DType::i32:
        tensor_.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
        break;
      case DType::f64:
        tensor_.as<double>()[i] = value;
        break;
      default:
        tensor_.as<float>()[i] = static_cast<float>(value);
    }
  }

 private:
  static std::size_t bytes_of(DType dtype, const Shape& shape) { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  Buffer buffer_;
  Tensor tensor_;
};

/// |a − b| <= absolute + relative·|b| everywhere.
inline ::testing::AssertionResult near(const Data& a, const Data& b, double relative, double absolute) {
  for (std::int64_t i = 0; i < b.elements(); ++i)
    if (!(std::abs(a.get(i) - b.get(i)) <= absolute + relative * std::abs(b.get(i))))
      return ::testing::AssertionFailure() << "element " << i << " of " << to_string((*b).shape) << ": " << a.get(i) << ", wanted "
                                           << b.get(i);
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_bits(const Data& a, const Data& b) {
  const auto size = static_cast<std::int64_t>(size_of((*a).dtype));
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (std::memcmp((*a).data + i * size, (*b).data + i * size, static_cast<std::size_t>(size)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a.get(i) << " and " << b.get(i);
  return ::testing::AssertionSuccess();
}

/// The rounding of one store: half a unit in bf16's eighth bit, or fp32's own with room for a long sum.
inline double tolerance(DType dtype) { return dtype == DType::bf16 ? 0x1p-7 : 1e-4; }

/// The exit code of the millrace::Error that `call` throws; −1 when it throws nothing.
template <class Call>
int thrown(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return -1;
}

/// Allocations of 4 KiB or more by operator new, malloc and their kin on any thread since the program began (allocations.cpp).
[[nodiscard]] std::int64_t large_allocations();

}  // namespace millrace::kernels::testing
