#include "kernels/cuda/plain_product.hpp"

#include "kernels/cuda/gemm_plans.hpp"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

constexpr int kTile = 16;  // a tile of c, with one thread per element

/// A row-major operand, or its transpose.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns;  // as the product uses them, after a transposition
  std::int64_t row_step, column_step;

  /// Zero beyond the edges.
  __device__ float at(std::int64_t row, std::int64_t column) const {
    return row < rows && column < columns ? load(data + row * row_step + column * column_step) : 0.0F;
  }
};

template <class T, class Result>
struct Task {
  Matrix<T> a, b;
  Result* c;
  const Result* added;  // null: nothing
  std::int64_t stride, column_tiles;
};

template <class T, class Result>
__global__ void __launch_bounds__(kTile* kTile) plain_product_kernel(Task<T, Result> task) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t tile = blockIdx.x;
  const std::int64_t row = tile / task.column_tiles * kTile + y, column = tile % task.column_tiles * kTile + x;
  float sum = 0;
  for (std::int64_t first = 0; first < task.a.columns; first += kTile) {
    left[y][x] = task.a.at(row, first + x);
    right[y][x] = task.b.at(first + y, column);
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  if (row >= task.a.rows || column >= task.b.columns) return;
  const std::int64_t place = row * task.stride + column;
  if (task.added != nullptr) sum += load(task.added + place);
  store(task.c + place, sum);
}

template <class T>
Matrix<T> matrix_of(const void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transpose) {
  return {static_cast<const T*>(data), rows, columns, transpose ? 1 : stride, transpose ? stride : 1};
}

}  // namespace

void plain_product(const ExecutionContext& context, const char* component, const Product& product) {
  with_type(product.operands, [&](auto operand) {
    with_type(product.result, [&](auto result) {
      using T = decltype(operand);
      using Result = decltype(result);
      const Task<T, Result> task{
          matrix_of<T>(product.a, product.m, product.k, product.stride_of_a(), product.transpose_a),
          matrix_of<T>(product.b, product.k, product.n, product.stride_of_b(), product.transpose_b),
          static_cast<Result*>(product.c),
          static_cast<const Result*>(product.accumulate ? product.c : product.addend),
          product.stride_of_c(),
          (product.n + kTile - 1) / kTile,
      };
      const std::int64_t tiles = (product.m + kTile - 1) / kTile * task.column_tiles;
      launch(context, component, plain_product_kernel<T, Result>, dim3(blocks_of(tiles, 1)), dim3(kTile * kTile), 0, task);
    });
  });
}

}  // namespace millrace::kernels::cuda
