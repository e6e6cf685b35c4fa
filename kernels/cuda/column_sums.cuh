#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

/// Sums over the rows of a matrix, for gradients of weights, in an order that depends only on its shape. A block owns 32 columns
/// and a section of the rows; each of its warps takes every 32nd row, then the warps' sums are added in order, then the
/// sections'. There are as many sections as DeviceContext::State::parts has room for, so that narrow matrices keep the device
/// busy too.
namespace millrace::kernels::cuda {

inline constexpr int kStrip = 32;     // columns of a block
inline constexpr int kRowLanes = 32;  // warps of a block

/// Terms: `static constexpr int sums` is the number of sums per column; `float* into[sums]` are their destinations; and `void
/// operator()(row, column, float (&sum)[sums])` adds the contribution of one element.
template <class Terms>
__global__ void __launch_bounds__(kStrip* kRowLanes)
    column_sums(Terms terms, std::int64_t rows, std::int64_t width, std::int64_t section_rows, double* parts) {
  __shared__ float lanes[Terms::sums][kRowLanes][kStrip];
  const int lane = static_cast<int>(threadIdx.x) / kStrip, within = static_cast<int>(threadIdx.x) % kStrip;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kStrip + within;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * section_rows;
  const std::int64_t end = begin + section_rows < rows ? begin + section_rows : rows;
  float sum[Terms::sums] = {};
  if (column < width) {
#pragma unroll 8
    for (std::int64_t row = begin + lane; row < end; row += kRowLanes) terms(row, column, sum);
  }
#pragma unroll
  for (int k = 0; k < Terms::sums; ++k) lanes[k][lane][within] = sum[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Terms::sums; ++k) {
    if (lane != k || column >= width) continue;
    float total = 0;
    for (int i = 0; i < kRowLanes; ++i) total += lanes[k][i][within];
    if (gridDim.y == 1)
      terms.into[k][column] += total;
    else
      parts[(static_cast<std::int64_t>(blockIdx.y) * Terms::sums + k) * width + column] = total;
  }
}

template <class Terms>
struct AddSections {
  Terms terms;
  const double* parts;
  std::int64_t width, sections;
  __device__ void operator()(std::int64_t column) const {
#pragma unroll
    for (int k = 0; k < Terms::sums; ++k) {
      double sum = 0;
      for (std::int64_t section = 0; section < sections; ++section) sum += parts[(section * Terms::sums + k) * width + column];
      terms.into[k][column] += static_cast<float>(sum);
    }
  }
};

template <class Terms>
void add_column_sums(const ExecutionContext& context, const char* component, std::int64_t rows, std::int64_t width, const Terms& terms) {
  if (rows <= 0 || width <= 0) return;
  constexpr std::int64_t least_rows = 8 * kRowLanes;  // a section has at least this many rows
  const std::int64_t most = std::max<std::int64_t>(kSumParts / (width * Terms::sums), 1);
  const std::int64_t section_rows = std::max((rows + most - 1) / most, least_rows);
  const std::int64_t sections = (rows + section_rows - 1) / section_rows;
  double* parts = state_of(context).parts;
  launch(context, component, column_sums<Terms>, dim3(blocks_of(width, kStrip), static_cast<unsigned>(sections)), dim3(kStrip * kRowLanes),
         0, terms, rows, width, section_rows, parts);
  if (sections > 1) for_each(context, component, width, AddSections<Terms>{terms, parts, width, sections});
}

}  // namespace millrace::kernels::cuda
