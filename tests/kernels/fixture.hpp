#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"
#include "tests/support/rounding.hpp"

/// Shared by the tests of kernels: tensors that own their memory, seeded random numbers, comparisons that report positions. With
/// the environment variable MILLRACE_TEST_DEVICE=cuda the implementation under test is that of the first GPU; all tests are
/// skipped if there is none.
namespace millrace::kernels::testing {

/// The context of the device under test; null for the CPU.
[[nodiscard]] DeviceContext* device_queue();
[[nodiscard]] inline bool on_device() { return device_queue() != nullptr; }
/// Returns when the device has done all enqueued work; throws errors that its kernels reported.
void wait();
/// Notes that a tensor is handed out, to which a kernel may be applied now.
void hand_out();
/// `wait`, unless no tensor was handed out since the last time: the elements of a large one are read one by one.
void wait_for_kernels();

/// The implementation under test.
[[nodiscard]] inline ExecutionContext fast(ThreadTeam& team) { return ExecutionContext(team, Implementation::fast, device_queue()); }
[[nodiscard]] inline ExecutionContext stream_of(ThreadTeam& team, Implementation implementation) {
  return implementation == Implementation::fast ? fast(team) : ExecutionContext(team, implementation);
}

/// Skips tests of properties that only a CPU has: threads, instruction sets, packing, the host's allocations.
#define MILLRACE_CPU_ONLY() \
  if (::millrace::kernels::testing::on_device()) GTEST_SKIP() << "this test is for the CPU only"

/// Zeroed memory that both the host and the device under test can access. Its destructor checks whether anything was written
/// beside it.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return bytes_ == 0 ? nullptr : buffer_.data() + kAlignment; }

 private:
  void guard() const;
  std::size_t bytes_;
  Buffer buffer_;
};

/// Scratch that the context's kernels can access.
[[nodiscard]] Buffer scratch_of(const ExecutionContext& context, std::size_t bytes);

/// A tensor with memory of its own; accessors wait for the device. Filled from a seed with numbers in [-scale, scale].
class Data {
 public:
  Data(DType dtype, Shape shape, std::uint64_t seed = 0, float scale = 1.0F) : memory_(bytes_of(dtype, shape)) {
    tensor_ = make_tensor(memory_.data(), dtype, shape);
    if (seed == 0) return;
    for (std::int64_t i = 0; i < tensor_.elements(); ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      put(i, scale * (static_cast<float>(seed >> 40) / 8388608.0F - 1.0F));
    }
  }
  Data(const Data& other) : Data(other.tensor_.dtype, other.tensor_.shape) {
    wait();
    if (tensor_.bytes() > 0) std::memcpy(tensor_.data, other.tensor_.data, tensor_.bytes());
  }

  [[nodiscard]] const Tensor& operator*() const {
    wait_for_kernels();
    hand_out();
    return tensor_;
  }
  [[nodiscard]] std::int64_t elements() const { return tensor_.elements(); }
  [[nodiscard]] double get(std::int64_t i) const {
    wait_for_kernels();
    return at(i);
  }
  /// The current contents, after a `wait`.
  [[nodiscard]] double at(std::int64_t i) const {
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
    wait_for_kernels();
    put(i, value);
  }

 private:
  void put(std::int64_t i, double value) {
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
  static std::size_t bytes_of(DType dtype, const Shape& shape) { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  Memory memory_;
  Tensor tensor_;
};

/// The value after it was stored.
inline double stored_as(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  return dtype == DType::f64 ? value : dtype == DType::bf16 ? to_float(to_bfloat16(narrow)) : narrow;
}
inline tests::Interval stored_as(DType dtype, tests::Interval exact) { return {stored_as(dtype, exact.low), stored_as(dtype, exact.high)}; }

/// Whether every element of `found` is a number of the interval exact(i), rounded to found's dtype.
template <class Exact>
::testing::AssertionResult lies_within(const Data& found, Exact&& exact) {
  wait();
  for (std::int64_t i = 0; i < found.elements(); ++i) {
    const tests::Interval range = exact(i), stored = stored_as((*found).dtype, range);
    if (!(stored.low <= found.at(i) && found.at(i) <= stored.high))
      return ::testing::AssertionFailure() << fmt::format("element {} of {} is {:.9g}, expected {:.9g} to {:.9g}, stored {:.9g} to {:.9g}",
                                                          i, to_string((*found).shape), found.at(i), range.low, range.high, stored.low,
                                                          stored.high);
  }
  return ::testing::AssertionSuccess();
}
/// The same with one relative error for all elements: it is multiplied by `magnitude`, the sum of the magnitudes of the element's
/// terms.
inline ::testing::AssertionResult lies_within(const Data& found, const Data& truth, double error, const Data& magnitude) {
  return lies_within(found, [&](std::int64_t i) { return tests::around(truth.at(i), error * std::abs(magnitude.at(i))); });
}

/// An fp32 copy.
inline Data as_fp32(const Data& x) {
  Data wide(DType::f32, (*x).shape);
  for (std::int64_t i = 0; i < x.elements(); ++i) wide.set(i, x.get(i));
  return wide;
}
/// An fp32 copy of magnitudes.
inline Data magnitudes(const Data& x) {
  Data wide(DType::f32, (*x).shape);
  for (std::int64_t i = 0; i < x.elements(); ++i) wide.set(i, std::abs(x.get(i)));
  return wide;
}

inline ::testing::AssertionResult same_bits(const Data& a, const Data& b) {
  const auto size = static_cast<std::int64_t>(size_of((*a).dtype));
  const std::byte *const left = (*a).data, *const right = (*b).data;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (std::memcmp(left + i * size, right + i * size, static_cast<std::size_t>(size)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a.get(i) << " and " << b.get(i);
  return ::testing::AssertionSuccess();
}

/// Relative error of exp(x − maximum) in fp32 for numbers in [−scale, scale]: an exponential is within 2 ulp of that of the rounded
/// difference, which is 2 · scale at most.
[[nodiscard]] inline double exponential_error(float scale) { return (2 * static_cast<double>(scale) + 4) * tests::fp32_roundoff; }

/// The slope of objective() along element i of `operand`, measured a step to both sides of its value, which it keeps.
template <class Objective>
double slope_along(Data& operand, std::int64_t i, double step, Objective&& objective) {
  const double value = operand.get(i);
  operand.set(i, value + step);
  const double above = objective();
  operand.set(i, value - step);
  const double below = objective();
  operand.set(i, value);
  return (above - below) / (2 * step);
}

/// The exit code of the millrace::Error that `call` throws; −1 if it throws nothing.
template <class Call>
int thrown(Call&& call) {
  try {
    call();
    wait();
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return -1;
}

/// Number of allocations of 4 KiB or more by operator new, malloc and related functions on any thread since the program began
/// (allocations.cpp). Under a sanitizer it is always 0.
[[nodiscard]] std::int64_t large_allocations();

}  // namespace millrace::kernels::testing
