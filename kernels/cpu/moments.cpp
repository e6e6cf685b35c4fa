#include "kernels/moments.hpp"

#include <algorithm>
#include <array>

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowsAtOnce = 256;  // their sums are on the stack
constexpr std::int64_t kLanes = 8;         // partial sums of a row, which the compiler keeps in vectors

struct RowMoments {
  double zeros = 0, sum = 0, squares = 0;
};

float widened(float value) { return value; }
float widened(BFloat16 value) { return to_float(value); }

template <class T>
RowMoments moments_of(const T* row, std::int64_t width) {
  std::array<double, kLanes> zeros{}, sum{}, squares{};
  const auto add = [&](std::int64_t i, std::int64_t lane) {
    const auto value = static_cast<double>(widened(row[i]));
    const auto at = static_cast<std::size_t>(lane);
    zeros[at] += value == 0 ? 1.0 : 0.0;
    sum[at] += value;
    squares[at] += value * value;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (std::int64_t lane = 0; i + lane < width; ++lane) add(i + lane, lane);
  RowMoments row_moments;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    row_moments.zeros += zeros[lane];
    row_moments.sum += sum[lane];
    row_moments.squares += squares[lane];
  }
  return row_moments;
}

/// Rows are added in order whatever the number of threads.
void moments(const ExecutionContext& context, const Tensor& x, const Tensor& sums) {
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  std::array<RowMoments, kRowsAtOnce> own;
  RowMoments all;
  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows - first);
    context.team().for_ranges(count, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t offset = (first + row) * width;
        own[static_cast<std::size_t>(row)] =
            x.dtype == DType::f32 ? moments_of(x.as<float>() + offset, width) : moments_of(x.as<BFloat16>() + offset, width);
      }
    });
    for (std::int64_t row = 0; row < count; ++row) {
      const RowMoments& one = own[static_cast<std::size_t>(row)];
      all.zeros += one.zeros;
      all.sum += one.sum;
      all.squares += one.squares;
    }
  }
  double* const out = sums.as<double>();
  out[0] = static_cast<double>(x.elements());
  out[1] = all.zeros;
  out[2] = all.sum;
  out[3] = all.squares;
}

const InTable in_table[] = {
    {Backend::cpu, table::moments, moments},
};

}  // namespace
}  // namespace millrace::kernels::cpu
